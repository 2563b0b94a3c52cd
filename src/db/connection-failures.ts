import { AppError } from '../errors.js';

/* The failures of a connection to PostgreSQL, in words that say what to change. */

/**
 * By the code and the message of a failure: what it means, and what to do. Null: the message says it. In the advice, % stands for the setting
 * with the URL.
 */
const FAILURES: readonly (readonly [is: RegExp, found: string | null, advice: string])[] = [
  [/^ECONNREFUSED /, null, 'Start PostgreSQL, or correct the host and port in %.'],
  [/^(ENOTFOUND|EAI_AGAIN) /, null, 'Correct the host in %, or the DNS of this machine.'],
  [
    /^(ETIMEDOUT|EHOSTUNREACH|ENETUNREACH) |timeout exceeded when trying to connect|due to connection timeout/,
    'nothing answers at the host and port',
    'Correct the host and port in %, or let a firewall on the way pass them.',
  ],
  [
    /client password must be|empty password returned/,
    'the server asks for a password, and none is set',
    'Put the password of the role into %.',
  ],
  [/^28P01 /, null, 'Correct the user or the password in %.'],
  [
    /^28000 .*pg_hba\.conf/,
    null,
    'Add a line for this connection to pg_hba.conf of the server. Where it has only a line with hostssl, set sslmode=verify-full in %.',
  ],
  [
    /valid client certificate|CERTIFICATE_REQUIRED/,
    'the server asks for a certificate of the client',
    'Name it by sslcert and sslkey in %.',
  ],
  [
    /^28000 role .* is not permitted to log in/,
    null,
    'Run as a superuser: ALTER ROLE … LOGIN. Or name another role in %.',
  ],
  [/^28000 role .* does not exist/, null, 'Create the role, or correct the user in %.'],
  [
    /^28000 certificate authentication failed/,
    'the certificate of the client is for another role',
    'Use a certificate whose common name is the user in %.',
  ],
  [/^28000 /, null, 'Correct the user in %, or pg_hba.conf of the server.'],
  [
    /^42501 permission denied for database/,
    null,
    'Run as the owner of the database: GRANT CONNECT ON DATABASE … TO ….',
  ],
  [/^42501 /, null, 'Grant the right to the role of %, as "PostgreSQL: roles and TLS" in docs/operating.md shows.'],
  [/^3D000 /, null, 'Create the database, or correct its name in %.'],
  [/^53300 /, null, 'Raise max_connections, or close unused connections.'],
  [
    /server does not support SSL/,
    'sslmode asks for TLS, and the server has none',
    'Turn ssl on in postgresql.conf of the server, or take sslmode out of %.',
  ],
  [
    /^ERR_OSSL_X509_KEY_VALUES_MISMATCH /,
    'sslkey is not the key of the certificate in sslcert',
    'Name a certificate and its own key in %.',
  ],
  [
    /^ERR_OSSL_(PEM|ASN1|WRONG_TAG|UNSUPPORTED)/,
    'a file of sslrootcert, sslcert or sslkey is no certificate or key in PEM',
    'Name files in PEM in %.',
  ],
  [
    /^ERR_OSSL_(BAD_DECRYPT|CRYPTO_INTERRUPTED)/,
    'the key in sslkey is locked by a passphrase',
    'Name a key without one in %.',
  ],
  [
    /PROTOCOL_VERSION|UNSUPPORTED_PROTOCOL/,
    'the server and this machine have no version of TLS in common',
    'Set ssl_min_protocol_version of the server to TLSv1.2.',
  ],
  [
    /^CERT_HAS_EXPIRED /,
    'the certificate of the server has expired',
    'Renew it on the server. If it is valid there, correct the clock of this machine.',
  ],
  [
    /^CERT_NOT_YET_VALID /,
    'the certificate of the server is not valid yet',
    'Correct the clock of this machine, or the certificate on the server.',
  ],
  [
    /^ERR_TLS_CERT_ALTNAME_INVALID /,
    'the certificate of the server is for another host name',
    'Use a host name of the certificate in %, or give the server a certificate for the one that is there.',
  ],
  [
    /^DEPTH_ZERO_SELF_SIGNED_CERT /,
    'the certificate of the server is self-signed, and it is not trusted',
    'Name the certificate by sslrootcert in %.',
  ],
  [
    /^(SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT\w*) /,
    'the certificate of the server is of an authority that is not trusted',
    'Name the certificate of that authority by sslrootcert in %.',
  ],
];

/** Of what is found above: what may pass without anybody, so that a server which starts waits for it. */
const PASSES = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|53300) |timeout/;

/** UNAVAILABLE has the failure as its cause. */
const failureIn = (error: unknown) => (error instanceof AppError ? (error.cause ?? error) : error);

const textOf = (error: unknown) => {
  const { code = '', message = '' } = failureIn(error) as { code?: unknown; message?: unknown };
  return `${code} ${message}`;
};

const find = (error: unknown) => FAILURES.find(([is]) => is.test(textOf(error)));

/** What a failure means, in one clause; null if its message says it, or if it is unknown. */
function explainConnection(error: unknown): string | null {
  return find(error)?.[1] ?? null;
}

/** What to do about a failure of the connection of a setting; null if it is unknown. */
export function adviseConnection(error: unknown, setting: string): string | null {
  return find(error)?.[2].replaceAll('%', setting) ?? null;
}

/** True for a failure of the connection that lasts until a person changes a setting or the server. */
export function mustBeCorrected(error: unknown): boolean {
  return find(error) !== undefined && !PASSES.test(textOf(error));
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
