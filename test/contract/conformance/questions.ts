import { randomBytes } from 'node:crypto';
import { parseAddress, stellarAddress } from '#dist/domain/wallets.js';
import type { Answer } from './answers.js';
import type { User } from './shapes.js';
import { NotObservable, type Question, type Target } from './target.js';

/** Requests that several checks send, and the values that they send. */

/** How many users of each kind a check tries. */
export const SAMPLE_SIZE = 5;
/** An ID that hardly any user has. It is the largest of 32 bits, so that every server accepts its form. */
export const UNUSED_ID = 2_147_483_647;
/** Values that no user has. */
export const UNUSED = {
  stellar: stellarAddress(randomBytes(32)),
  ethereum: `0x${randomBytes(20).toString('hex')}`,
  email: `nobody-${randomBytes(8).toString('hex')}@example.com`,
};

export function verify(target: Target, body: unknown): Promise<Answer> {
  return target.ask({ method: 'POST', path: '/server/wallets/verify', body });
}

export function search(target: Target, parameter: 'email' | 'address', value: string): Promise<Answer> {
  return target.ask(`/server/users/search?${parameter}=${encodeURIComponent(value)}`);
}

export interface KnownAddress {
  readonly user: User;
  readonly address: string;
  readonly network: 'stellar' | 'ethereum';
}

/** The addresses that are certainly linked to a user, and those that are certainly the user's login wallet. */
export function addressesOf(user: User): { linked: KnownAddress[]; login: KnownAddress[] } {
  const known = (address: string): KnownAddress[] => {
    const parsed = parseAddress(address);
    return 'network' in parsed ? [{ user, address, network: parsed.network }] : [];
  };
  const login = user.auth_method === 'wallet' ? known(user.wallet || user.auth_value) : [];
  // If a user has a wallet, the answer does not say which of the accounts is external.
  const linked = user.wallet || login.length > 0 ? [] : user.accounts.flatMap((account) => known(account.public_key));
  return { linked, login };
}

export async function findKnownAddresses(
  target: Target,
  kind: 'linked' | 'login',
  network?: KnownAddress['network'],
): Promise<KnownAddress[]> {
  const { users } = await target.sample();
  const all = users.flatMap((user) => addressesOf(user)[kind]);
  const some = all.filter((known) => network === undefined || known.network === network).slice(0, SAMPLE_SIZE);
  const what = kind === 'linked' ? 'account of a user who logs in by email, passkey or provider' : 'login wallet';
  if (some.length === 0) throw new NotObservable(`there is no ${network === undefined ? '' : `${network} `}${what}`);
  return some;
}

/** The six routes, without a real user, so that a server that accepts wrong credentials does no harm. */
export const ROUTES = {
  list: { path: '/server/users?limit=1' },
  count: { path: '/server/users/count' },
  search: { path: `/server/users/search?email=${UNUSED.email}` },
  get: { path: `/server/users/${UNUSED_ID}` },
  delete: { method: 'DELETE', path: `/server/users/${UNUSED_ID}` },
  verify: { method: 'POST', path: '/server/wallets/verify', body: { address: UNUSED.stellar } },
} satisfies Record<string, Question>;

/** The routes that answer with 404 if the user does not exist. */
export const SINGLE_USER_ROUTES = ['get', 'delete'];
