import { AUTH_METHODS, PHONE_NUMBER } from '../../domain/auth-methods.js';
import { emailKey } from '../../domain/identities.js';
import { KEPT_TEXTS, ofKeptLines } from '../../domain/kept-texts.js';
import type { BanState, ExportedIdentity, ExportedUser } from '../../domain/users.js';

/* A user on the way out to another system, and what that cannot hold of them. */

/** Counts what a system cannot hold, under a plural noun. */
export type Drop = (what: string, times?: number | boolean) => void;

/** What a system can hold of a user. Those that an import keeps as metadata have the same names there (person.ts). */
export type Field = 'created_at' | 'last_login' | 'username' | 'unverified_email' | 'unverified_phone';

/** What a system can hold. */
export interface Holds {
  /** The method of a user who had no login there. */
  readonly name: string;
  readonly fields: readonly Field[];
  /** The name of a provider there; null where it has none. */
  readonly providerOf: (method: string) => string | null;
}

/** A user as any system may hold one. */
export interface Leaver extends Pick<ExportedUser, 'created_at' | 'last_login'> {
  /** The ID that the system has given or else the external ID; without one, `ownId`. */
  readonly id: string;
  /** The user ID, told apart from external IDs. */
  readonly ownId: string;
  readonly isBlocked: boolean;
  /** Verified is null where that is unknown. */
  readonly email: { readonly address: string; readonly verified: boolean | null } | null;
  readonly phone: { readonly number: string; readonly verified: boolean } | null;
  readonly username: string | null;
  /** The value of the primary identity. */
  readonly login: string;
  /** The first identity of each provider that the system has, by its name there. */
  readonly providers: readonly (readonly [name: string, identity: ExportedIdentity])[];
  /** The part that is in no other field. */
  readonly metadata: Readonly<Record<string, unknown>>;
}

/** A user as the system may hold them. */
export function leaverOf(user: ExportedUser, ban: BanState | null, holds: Holds, drop: Drop): Leaver {
  const { fields } = holds;
  const metadata = { ...(user.metadata as Record<string, unknown> | null) };
  const identities = user.identities ?? [user.primary];
  const ownId = `userdir-${user.id}`;
  const logins = new Map<string, ExportedIdentity>();
  for (const identity of identities) {
    const { auth_method: method, auth_value: value } = identity;
    const name = nameOf(identity, holds);
    if (name !== null && !logins.has(name)) logins.set(name, identity);
    else if (method === 'username') metadata['username'] ??= value;
    else drop(`${Object.hasOwn(AUTH_METHODS, method) || method === 'phone' ? method : 'other'} identities`);
  }
  /** Takes from the metadata what an import has kept there. */
  function take(field: Field): string | null {
    const value = metadata[field];
    if (typeof value !== 'string' || !fields.includes(field)) return null;
    delete metadata[field];
    return value;
  }
  const id = logins.get(holds.name)?.auth_value ?? user.external_id ?? ownId;
  const email = emailOf(identities) ?? unverified(take('unverified_email'));
  const phone = logins.get('phone')?.auth_value ?? null;
  const number = phone ?? take('unverified_phone');
  drop('further emails', user.login_email !== null && email !== null && emailKey(email.address) !== user.login_email);
  ofKeptLines((field, line) => drop(KEPT_TEXTS[field].plural, user[line] !== null && user[line] !== id));
  drop('emails not known to be verified', fields.includes('unverified_email') && email?.verified === null);
  drop('creation dates', !fields.includes('created_at'));
  drop('last logins', user.last_login !== null && !fields.includes('last_login'));
  drop('login counts', user.login_count > 0);
  drop('accounts', user.accounts.length);
  drop('reasons of bans', ban?.reason != null);
  drop('ends of bans', ban?.expiresAt != null);
  return {
    id,
    ownId,
    isBlocked: ban !== null,
    email,
    phone: number === null ? null : { number, verified: phone !== null },
    username: logins.get('username')?.auth_value ?? take('username'),
    login: user.auth_value,
    providers: [...logins].filter(([name]) => ![holds.name, 'email', 'phone', 'username'].includes(name)),
    created_at: user.created_at,
    last_login: user.last_login,
    metadata,
  };
}

/** The name of an identity among the logins that the system holds; null where it holds none such. */
function nameOf({ auth_method: method, auth_value: value }: ExportedIdentity, { name, fields, providerOf }: Holds) {
  if (method === name || method === 'email') return method;
  if (method === 'phone') return PHONE_NUMBER.test(value) ? method : null;
  if (method === 'username') return fields.includes(method) ? method : null;
  return providerOf(method);
}

const unverified = (address: string | null) => (address === null ? null : { address, verified: false });

/** The email by which a person logs in, or else the first of another login. */
function emailOf(identities: readonly ExportedIdentity[]): Leaver['email'] {
  const login = identities.find(({ auth_method: method }) => method === 'email');
  if (login !== undefined) return { address: login.auth_value, verified: login.email_verified };
  const other = identities.find(({ email }) => email !== null);
  return other?.email ? { address: other.email, verified: other.email_verified } : null;
}
