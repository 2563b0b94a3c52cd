import { AppError, failureIn } from '../errors.js';

/* The failures of a connection to PostgreSQL, in words that say what to change. */

/** A failure of a connection, known by its code and its message. */
interface ConnectionFailure {
  readonly is: RegExp;
  /** What it means, in one clause. Without it, the message says it. */
  readonly found?: string;
  /** What to do. % stands for the setting with the URL. */
  readonly advice: string;
  /** True if it may pass without anybody, so that a server which starts waits for it. */
  readonly passes?: true;
}

const FAILURES: readonly ConnectionFailure[] = [
  {
    is: /^ECONNREFUSED /,
    advice: 'Start PostgreSQL, or correct the host and port in %.',
    passes: true,
  },
  {
    is: /^(ENOTFOUND|EAI_AGAIN) /,
    advice: 'Correct the host in %, or the DNS of this machine.',
    passes: true,
  },
  {
    is: /^(ETIMEDOUT|EHOSTUNREACH|ENETUNREACH) |timeout exceeded when trying to connect|due to connection timeout/,
    found: 'nothing answers at the host and port',
    advice: 'Correct the host and port in %, or let a firewall on the way pass them.',
    passes: true,
  },
  {
    is: /client password must be|empty password returned/,
    found: 'the server asks for a password, and none is set',
    advice: 'Put the password of the role into %.',
  },
  {
    is: /^28P01 /,
    advice: 'Correct the user or the password in %.',
  },
  {
    is: /^28000 .*pg_hba\.conf/,
    advice:
      'Add a line for this connection to pg_hba.conf of the server. Where it has only a line with hostssl, set sslmode=verify-full in %.',
  },
  {
    is: /valid client certificate|CERTIFICATE_REQUIRED/,
    found: 'the server asks for a certificate of the client',
    advice: 'Name it by sslcert and sslkey in %.',
  },
  {
    is: /^28000 role .* is not permitted to log in/,
    advice: 'Run as a superuser: ALTER ROLE … LOGIN. Or name another role in %.',
  },
  {
    is: /^28000 role .* does not exist/,
    advice: 'Create the role, or correct the user in %.',
  },
  {
    is: /^28000 certificate authentication failed/,
    found: 'the certificate of the client is for another role',
    advice: 'Use a certificate whose common name is the user in %.',
  },
  {
    is: /^28000 /,
    advice: 'Correct the user in %, or pg_hba.conf of the server.',
  },
  {
    is: /^42501 permission denied for database/,
    advice: 'Run as the owner of the database: GRANT CONNECT ON DATABASE … TO ….',
  },
  {
    is: /^42501 /,
    advice: 'Grant the right to the role of %, as "PostgreSQL: roles and TLS" in docs/operating.md shows.',
  },
  {
    is: /^3D000 /,
    advice: 'Create the database, or correct its name in %.',
  },
  {
    is: /^53300 /,
    advice: 'Raise max_connections, or close unused connections.',
    passes: true,
  },
  {
    is: /server does not support SSL/,
    found: 'sslmode asks for TLS, and the server has none',
    advice: 'Turn ssl on in postgresql.conf of the server, or take sslmode out of %.',
  },
  {
    is: /^ERR_OSSL_X509_KEY_VALUES_MISMATCH /,
    found: 'sslkey is not the key of the certificate in sslcert',
    advice: 'Name a certificate and its own key in %.',
  },
  {
    is: /^ERR_OSSL_(PEM|ASN1|WRONG_TAG|UNSUPPORTED)/,
    found: 'a file of sslrootcert, sslcert or sslkey is no certificate or key in PEM',
    advice: 'Name files in PEM in %.',
  },
  {
    is: /^ERR_OSSL_(BAD_DECRYPT|CRYPTO_INTERRUPTED)/,
    found: 'the key in sslkey is locked by a passphrase',
    advice: 'Name a key without one in %.',
  },
  {
    is: /PROTOCOL_VERSION|UNSUPPORTED_PROTOCOL/,
    found: 'the server and this machine have no version of TLS in common',
    advice: 'Set ssl_min_protocol_version of the server to TLSv1.2.',
  },
  {
    is: /^CERT_HAS_EXPIRED /,
    found: 'the certificate of the server has expired',
    advice: 'Renew it on the server. If it is valid there, correct the clock of this machine.',
  },
  {
    is: /^CERT_NOT_YET_VALID /,
    found: 'the certificate of the server is not valid yet',
    advice: 'Correct the clock of this machine, or the certificate on the server.',
  },
  {
    is: /^ERR_TLS_CERT_ALTNAME_INVALID /,
    found: 'the certificate of the server is for another host name',
    advice: 'Use a host name of the certificate in %, or give the server a certificate for the one that is there.',
  },
  {
    is: /^DEPTH_ZERO_SELF_SIGNED_CERT /,
    found: 'the certificate of the server is self-signed, and it is not trusted',
    advice: 'Name the certificate by sslrootcert in %.',
  },
  {
    is: /^(SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT\w*) /,
    found: 'the certificate of the server is of an authority that is not trusted',
    advice: 'Name the certificate of that authority by sslrootcert in %.',
  },
];

const textOf = (error: unknown) => {
  const { code = '', message = '' } = failureIn(error) as { code?: unknown; message?: unknown };
  return `${code} ${message}`;
};

const find = (error: unknown) => FAILURES.find(({ is }) => is.test(textOf(error)));

/** What a failure means, in one clause; null if its message says it, or if it is unknown. */
function explainConnection(error: unknown): string | null {
  return find(error)?.found ?? null;
}

/** What to do about a failure of the connection of a setting; null if it is unknown. */
export function adviseConnection(error: unknown, setting: string): string | null {
  return find(error)?.advice.replaceAll('%', setting) ?? null;
}

/** True for a failure of the connection that lasts until a person changes a setting or the server. */
export function mustBeCorrected(error: unknown): boolean {
  const known = find(error);
  return known !== undefined && !known.passes;
}

/** Why something failed, in one line. */
export function explainFailure(error: unknown): string {
  const hasReason = error instanceof AppError && ['INTERNAL_SERVER_ERROR', 'UNAVAILABLE'].includes(error.code);
  const cause = hasReason ? (error.cause ?? error) : error;
  if (cause instanceof AggregateError) return cause.errors.map(explainFailure).join('; ');
  const known = explainConnection(cause);
  if (known !== null) return known;
  const { code = '', syscall = '' } = cause as NodeJS.ErrnoException;
  if (['connect', 'getaddrinfo'].includes(syscall))
    return `The database of DATABASE_URL cannot be reached: ${(cause as Error).message || code}.`;
  // For a failed query Prisma prints source code first, and the reason in the last line.
  const lines = (cause instanceof Error ? cause.message : String(cause)).split('\n').filter((line) => line.trim());
  return lines.at(-1) ?? 'It failed without a reason.';
}

/** A failure to open the database, with what to change if that is known. */
export function withAdvice(error: unknown): unknown {
  const advice = adviseConnection(error, 'DATABASE_URL');
  if (advice === null) return error instanceof AppError && error.code === 'UNAVAILABLE' ? failureIn(error) : error;
  return new Error(`${explainFailure(error).replace(/\.$/, '')}. ${advice}`, { cause: error });
}
