import { z } from 'zod';
import { Network, WalletType } from '../db/client.js';
import { AppError } from '../errors.js';
import type { Ban, BanRecord } from '../sql/bans.js';
import type { ExportedUser } from '../sql/export-users.js';
import type { UserRecord } from '../sql/import-users.js';
import { requireFewAccounts } from './account-limit.js';
import { EARLIEST, LATEST, parse, parseDate, says } from './filters.js';
import { parseIdentity, parseProfile, snakeCase } from './identities.js';

/**
 * The import format (design, section 6): one JSON object a line. Export writes what import reads: the users, and after them the
 * bans of the project, each as {"ban": {…}}.
 */

const MAX_LINE_BYTES = 1_048_576;
const MAX_LOGIN_COUNT = 2_147_483_647;
const DATE_TIME_FORM = 'an RFC 3339 date-time from 1970 to 9999';
const KNOWN_FIELDS = 'auth_method, auth_value, email, wallet, created_at, last_login, login_count, accounts';
const KNOWN_BAN_FIELDS = 'auth_method, auth_value, created_at';
const loginCountForm = { error: says('login_count', `a whole number from 0 to ${MAX_LOGIN_COUNT}`) };
const optionalText = (name: string) => z.string({ error: says(name, 'text') }).nullish();
const dateTime = (name: string) =>
  z
    .string({ error: says(name, DATE_TIME_FORM) })
    .transform((text, context) => {
      const instant = parseDate(text, 'first');
      if (instant !== null && instant >= EARLIEST && instant <= LATEST) return instant;
      context.addIssue({ code: 'custom', message: says(name, DATE_TIME_FORM)({ input: text }) });
      return z.NEVER;
    })
    .nullish();
const walletTypeForm = Object.values(WalletType).join(' or ');
const networkForm = Object.values(Network).join(' or ');
const accountForm = {
  error: says(
    'accounts',
    'a list of {"network", "public_key"}, with "wallet_type" where it does not follow from the wallet',
  ),
};

const unknownFields = (known: string, name: string) => (issue: z.core.$ZodRawIssue) =>
  issue.code === 'unrecognized_keys'
    ? `Unknown field ${issue.keys.map((key) => JSON.stringify(key)).join(', ')}; known are ${known}.`
    : says(name, 'a JSON object')(issue);

const banLine = z.strictObject(
  {
    ban: z.strictObject(
      {
        auth_method: z.string({ error: says('auth_method', 'text') }),
        auth_value: z.string({ error: says('auth_value', 'text') }),
        created_at: dateTime('created_at'),
      },
      { error: unknownFields(KNOWN_BAN_FIELDS, 'ban') },
    ),
  },
  { error: unknownFields('ban, alone on its line', 'line') },
);

const line = z.strictObject(
  {
    auth_method: z.string({ error: says('auth_method', 'text') }),
    auth_value: z.string({ error: says('auth_value', 'text') }),
    email: optionalText('email'),
    wallet: optionalText('wallet'),
    created_at: dateTime('created_at'),
    last_login: dateTime('last_login'),
    login_count: z.int(loginCountForm).min(0, loginCountForm).max(MAX_LOGIN_COUNT, loginCountForm).nullish(),
    accounts: z
      .array(
        z.strictObject(
          {
            network: z.enum(Network, { error: says('accounts[].network', networkForm) }),
            public_key: z.string({ error: says('accounts[].public_key', 'text') }),
            wallet_type: z.enum(WalletType, { error: says('accounts[].wallet_type', walletTypeForm) }).nullish(),
          },
          accountForm,
        ),
        accountForm,
      )
      .nullish(),
  },
  { error: unknownFields(KNOWN_FIELDS, 'line') },
);

/** Its type is said only where it does not follow from the wallet: an external account that is no longer the login wallet. */
function formatAccount({ wallet_type, ...account }: ExportedUser['accounts'][number], wallet: string | null) {
  const follows = (wallet_type === 'external') === (account.public_key === wallet);
  return follows ? account : { ...account, wallet_type };
}

/** A user as a line of the format, with its end. */
export function formatLine(user: ExportedUser): string {
  const fields = {
    auth_method: user.authMethod,
    auth_value: user.authValue,
    email: user.authMethod === 'email' ? null : user.loginEmail,
    wallet: user.wallet,
    created_at: user.createdAt,
    last_login: user.lastLogin,
    login_count: user.loginCount,
    accounts: user.accounts.map((account) => formatAccount(account, user.wallet)),
  };
  return `${JSON.stringify(fields)}\n`;
}

/** A ban as a line of the format, with its end. */
export function formatBan({ authMethod, authValue, createdAt }: Ban): string {
  return `${JSON.stringify({ ban: { auth_method: authMethod, auth_value: authValue, created_at: createdAt } })}\n`;
}

const TOO_LONG = Symbol('a line that is too long');
const NEWLINE = 0x0a;

export type Line = Buffer | typeof TOO_LONG;

/** Lines as bytes, without their end, as many at a time as a chunk completes; of one that is too long only the fact is kept. */
export async function* splitLines(input: AsyncIterable<Buffer>): AsyncGenerator<Line[]> {
  let held: Buffer[] = [];
  let heldBytes = 0;
  for await (const chunk of input) {
    const lines: Line[] = [];
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      hold(chunk.subarray(start, end));
      lines.push(take());
      start = end + 1;
    }
    hold(chunk.subarray(start));
    yield lines;
  }
  if (heldBytes > 0) yield [take()];

  function hold(part: Buffer) {
    heldBytes += part.length;
    if (heldBytes <= MAX_LINE_BYTES) held.push(part);
    else held = [];
  }

  function take(): Line {
    const line = heldBytes > MAX_LINE_BYTES ? TOO_LONG : held.length === 1 ? (held[0] as Buffer) : Buffer.concat(held);
    held = [];
    heldBytes = 0;
    return line;
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** What a line says. */
export type LineRecord = { readonly user: UserRecord } | { readonly ban: BanRecord };

/** The record of a line, null for an empty one; BAD_USER_INPUT. */
export function parseLine(bytes: Line): LineRecord | null {
  if (bytes === TOO_LONG) throw new AppError('BAD_USER_INPUT', `The line has more than ${MAX_LINE_BYTES} bytes.`);
  const text = decode(bytes).trim();
  if (text === '') return null;
  const value = parseJson(text);
  const isBan = typeof value === 'object' && value !== null && Object.hasOwn(value, 'ban');
  return isBan ? { ban: parseBan(value) } : { user: parseUser(value) };
}

function parseBan(value: unknown): BanRecord {
  const { ban } = parse(banLine, value);
  const identity = parseIdentity({ authMethod: ban.auth_method, authValue: ban.auth_value }, snakeCase);
  return { ...identity, createdAt: ban.created_at ?? null };
}

function parseUser(value: unknown): UserRecord {
  const fields = parse(line, value);
  const profile = parseProfile(
    {
      authMethod: fields.auth_method,
      authValue: fields.auth_value,
      email: fields.email,
      wallet: fields.wallet,
      accounts: fields.accounts?.map((account) => ({
        network: account.network,
        publicKey: account.public_key,
        walletType: account.wallet_type,
      })),
    },
    snakeCase,
  );
  requireFewAccounts(profile);
  return {
    ...profile,
    createdAt: fields.created_at ?? null,
    lastLogin: fields.last_login ?? null,
    loginCount: fields.login_count ?? null,
  };
}

function decode(bytes: Buffer): string {
  try {
    return utf8.decode(bytes);
  } catch (cause) {
    throw new AppError('BAD_USER_INPUT', 'The line is not valid UTF-8.', { cause });
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new AppError('BAD_USER_INPUT', `The line is not valid JSON: ${(cause as Error).message}.`, { cause });
  }
}
