import { randomBytes } from 'node:crypto';
import { parseAddress, stellarAddress } from '../domain/addresses.js';
import { NEGATIVE, ONE_USER, POSITIVE, SEARCH, SUCCESS, type User } from './shapes.js';
import {
  type Answer,
  type Check,
  requireError,
  requireResult,
  requireThat,
  shown,
  steadily,
  type Target,
  Unobservable,
} from './target.js';

/** Search, "get one", and wallet verification. */

/** How many users of a kind are asked about. */
const TRIED = 5;
/** An id that hardly anybody has; the largest of 32 bits, so that it is well-formed everywhere. */
export const NOBODY = 2_147_483_647;
export const strangers = {
  stellar: stellarAddress(randomBytes(32)),
  ethereum: `0x${randomBytes(20).toString('hex')}`,
  email: `nobody-${randomBytes(8).toString('hex')}@example.com`,
};

export const verify = (target: Target, body: unknown): Promise<Answer> =>
  target.ask({ method: 'POST', path: '/server/wallets/verify', body });

export function search(target: Target, parameter: 'email' | 'address', value: string): Promise<Answer> {
  return target.ask(`/server/users/search?${parameter}=${encodeURIComponent(value)}`);
}

const found = (answer: Answer) => requireResult(answer, SEARCH, 'total_user and users');

interface Held {
  readonly user: User;
  readonly address: string;
  readonly network: 'stellar' | 'ethereum';
}

/** The addresses of a user that he has without logging in by them, and those by which he does. */
export function addressesOf(user: User): { linked: Held[]; login: Held[] } {
  const hold = (address: string): Held[] => {
    const parsed = parseAddress(address);
    return 'network' in parsed ? [{ user, address, network: parsed.network }] : [];
  };
  const login = user.auth_method === 'wallet' ? hold(user.wallet || user.auth_value) : [];
  // Of a user with a wallet it is not shown which of his accounts are his own.
  const linked = user.wallet || login.length > 0 ? [] : user.accounts.flatMap((account) => hold(account.public_key));
  return { linked, login };
}

async function heldIn(target: Target, kind: 'linked' | 'login', network?: Held['network']): Promise<Held[]> {
  const { users } = await target.sample();
  const all = users.flatMap((user) => addressesOf(user)[kind]);
  const some = all.filter((each) => network === undefined || each.network === network).slice(0, TRIED);
  const what = kind === 'linked' ? 'account beside a login by email, passkey or provider' : 'login by wallet';
  if (some.length === 0) throw new Unobservable(`there is no ${network === undefined ? '' : `${network} `}${what}`);
  return some;
}

async function emailsIn(target: Target): Promise<User[]> {
  const { users } = await target.sample();
  const some = users.filter((user) => user.auth_method === 'email' && user.auth_value.includes('@')).slice(0, TRIED);
  if (some.length === 0) throw new Unobservable('no user signs in by email');
  return some;
}

function requireUser(answer: Answer, user: User): void {
  const { users } = found(answer);
  requireThat(
    users.some(({ id }) => id === user.id),
    answer,
    `user ${user.id} among them`,
    shown(answer),
  );
}

function searchCheck(id: string, kind: 'linked' | 'login', network: Held['network'], what: string): Check {
  return {
    id: `search/${id}`,
    sentence: `address: Stellar address (G...) or Ethereum address (0x...). Searches ${what}.`,
    run: (target) =>
      steadily(target, async () => {
        for (const { user, address } of await heldIn(target, kind, network))
          requireUser(await search(target, 'address', address), user);
      }),
  };
}

const CUSTODIAL = 'custodial accounts provisioned by the service';
const EXTERNAL = 'external wallet login addresses';

const searchChecks: Check[] = [
  {
    id: 'search/result',
    sentence: 'Response 200: message, and result with total_user (integer) and users (array of user objects).',
    async run(target) {
      const [user] = (await target.sample()).users;
      if (user === undefined) throw new Unobservable('there are no users');
      const answer = await search(target, 'email', user.auth_method === 'email' ? user.auth_value : strangers.email);
      const { total_user: total, users } = found(answer);
      requireThat(total === users.length, answer, `total_user ${users.length}, one for each user`, shown(answer));
    },
  },
  {
    id: 'search/email',
    sentence: 'email: match on the login email.',
    run: (target) =>
      steadily(target, async () => {
        for (const user of await emailsIn(target)) requireUser(await search(target, 'email', user.auth_value), user);
      }),
  },
  {
    id: 'search/email-case',
    sentence: 'email: case-insensitive.',
    run: (target) =>
      steadily(target, async () => {
        for (const user of await emailsIn(target)) {
          requireUser(await search(target, 'email', user.auth_value.toUpperCase()), user);
          requireUser(await search(target, 'email', user.auth_value.toLowerCase()), user);
        }
      }),
  },
  {
    id: 'search/email-exact',
    sentence: 'email: exact.',
    run: (target) =>
      steadily(target, async () => {
        for (const user of await emailsIn(target)) {
          const [local = '', domain = ''] = user.auth_value.split('@');
          for (const other of [`x${user.auth_value}`, `${local.slice(1)}@${domain}`, `%@${domain}`]) {
            const answer = await search(target, 'email', other);
            // What is no email at all may be refused.
            if (answer.status === 400) continue;
            const { users } = found(answer);
            const isThere = users.some(({ id }) => id === user.id);
            requireThat(!isThere, answer, 'nobody whose email is another', `user ${user.id}`);
          }
        }
      }),
  },
  {
    id: 'search/every-match',
    sentence: 'Every match is returned, because one email can belong to more than one user.',
    run: (target) =>
      steadily(target, async () => {
        const { users } = await target.sample();
        const byEmail = new Map<string, User[]>();
        for (const user of users.filter(({ auth_value: value }) => /^[^@\s]+@[^@\s]+$/.test(value))) {
          const email = user.auth_value.toLowerCase();
          byEmail.set(email, [...(byEmail.get(email) ?? []), user]);
        }
        const [shared] = [...byEmail].filter(([, owners]) => owners.length > 1);
        if (shared === undefined) throw new Unobservable('no email is seen to belong to more than one user');
        const answer = await search(target, 'email', shared[0]);
        for (const user of shared[1]) requireUser(answer, user);
      }),
  },
  searchCheck('address-custodial-stellar', 'linked', 'stellar', CUSTODIAL),
  searchCheck('address-custodial-ethereum', 'linked', 'ethereum', CUSTODIAL),
  searchCheck('address-external-stellar', 'login', 'stellar', EXTERNAL),
  searchCheck('address-external-ethereum', 'login', 'ethereum', EXTERNAL),
  {
    id: 'search/no-match',
    sentence: 'No match gives 200 with total_user equal to 0 and an empty users array.',
    async run(target) {
      for (const [parameter, value] of [
        ['email', strangers.email],
        ['address', strangers.stellar],
        ['address', strangers.ethereum],
      ] as const) {
        const answer = await search(target, parameter, value);
        const { total_user: total, users } = found(answer);
        requireThat(total === 0 && users.length === 0, answer, 'total_user 0 and no users', shown(answer));
      }
    },
  },
  {
    id: 'search/both',
    sentence: 'Supplying both parameters returns 400.',
    async run(target) {
      const query = `email=${strangers.email}&address=${strangers.stellar}`;
      requireError(await target.ask(`/server/users/search?${query}`), 400);
    },
  },
  {
    id: 'search/neither',
    sentence: 'Supplying neither parameter returns 400.',
    run: async (target) => requireError(await target.ask('/server/users/search'), 400),
  },
];

const getChecks: Check[] = [
  {
    id: 'get/result',
    sentence: 'Response 200: message, and result holding one user object (with its accounts).',
    run: (target) =>
      steadily(target, async () => {
        const { users } = await target.sample();
        const [user] = users.filter(({ accounts }) => accounts.length > 0);
        if (user === undefined) throw new Unobservable('no user has accounts');
        const answer = await target.ask(`/server/users/${user.id}`);
        const one = requireResult(answer, ONE_USER, 'one user');
        requireThat(one['id'] === user.id, answer, `user ${user.id}`, shown(answer));
        const [ids, listed] = [one['accounts'], user.accounts].map((accounts) =>
          JSON.stringify((accounts as User['accounts'] | undefined)?.map(({ id }) => id)),
        );
        requireThat(ids === listed, answer, `accounts ${listed}, as the list has them`, shown(answer));
      }),
  },
  {
    id: 'get/invalid-id',
    sentence: 'Invalid ID gives 400.',
    async run(target) {
      for (const id of ['abc', '1.5']) requireError(await target.ask(`/server/users/${id}`), 400);
    },
  },
  {
    id: 'get/unknown',
    sentence: 'Unknown user gives 404.',
    async run(target) {
      const answer = await target.ask(`/server/users/${NOBODY}`);
      const { result } = SUCCESS.safeParse(answer.body).data ?? {};
      if (result?.['id'] === NOBODY) throw new Unobservable(`there is a user ${NOBODY}`);
      requireError(answer, 404);
    },
  },
];

const WALLET_TYPES = { linked: 'custodial', login: 'external' } as const;

function walletTypeCheck(kind: 'linked' | 'login', meaning: string): Check {
  const expected = WALLET_TYPES[kind];
  return {
    id: `verify/${expected}`,
    sentence: `wallet_type: ${expected} (${meaning}).`,
    run: (target) =>
      steadily(target, async () => {
        const types = [];
        for (const { user, address } of await heldIn(target, kind)) {
          const answer = await verify(target, { address, user_id: user.id });
          types.push(requireResult(answer, POSITIVE, 'a positive verification').wallet_type);
        }
        const asked = { request: `POST /server/wallets/verify, for ${types.length} addresses` };
        requireThat((types as string[]).includes(expected), asked, `wallet_type ${expected}`, types);
      }),
  };
}

const verifyChecks: Check[] = [
  {
    id: 'verify/positive',
    sentence: 'Positive: result.exists is true with user_id, network, wallet_type, auth_method.',
    run: (target) =>
      steadily(target, async () => {
        const { users } = await target.sample();
        const all = users.flatMap((user) => Object.values(addressesOf(user)).flat()).slice(0, TRIED);
        if (all.length === 0) throw new Unobservable('no user is known by an address');
        for (const { address, network } of all) {
          const answer = await verify(target, { address });
          const result = requireResult(answer, POSITIVE, 'exists, user_id, network, wallet_type and auth_method');
          requireThat(result.network === network, answer, `network ${network}`, result);
          const owner = requireResult(await target.ask(`/server/users/${result.user_id}`), ONE_USER, 'the owner');
          const method = String(owner['auth_method']);
          requireThat(result.auth_method === method, answer, `auth_method ${method}, the owner's`, result);
          const isTheirs = JSON.stringify(owner).toLowerCase().includes(address.toLowerCase());
          requireThat(isTheirs, answer, 'the user_id of a user who has the address', result);
        }
      }),
  },
  walletTypeCheck('linked', 'account provisioned by the service'),
  walletTypeCheck('login', "the user's own login wallet"),
  {
    id: 'verify/pinned',
    sentence: 'user_id: when present, the address must belong to this specific user: it does.',
    run: (target) =>
      steadily(target, async () => {
        const { users } = await target.sample();
        const all = users.flatMap((user) => Object.values(addressesOf(user)).flat()).slice(0, TRIED);
        if (all.length === 0) throw new Unobservable('no user is known by an address');
        for (const { user, address } of all) {
          const answer = await verify(target, { address, user_id: user.id });
          const { user_id: id } = requireResult(answer, POSITIVE, 'a positive verification');
          requireThat(id === user.id, answer, `user_id ${user.id}`, { user_id: id });
        }
      }),
  },
  {
    id: 'verify/pinned-to-another',
    sentence:
      'A well-formed address that does not match the pinned user_id is not an error; the status is 200 and result.exists is false.',
    run: (target) =>
      steadily(target, async () => {
        const { users } = await target.sample();
        const [held] = users.flatMap((user) => Object.values(addressesOf(user)).flat());
        if (held === undefined) throw new Unobservable('no user is known by an address');
        const hasIt = (user: User) => JSON.stringify(user).toLowerCase().includes(held.address.toLowerCase());
        const other = users.find((user) => !hasIt(user));
        for (const id of [other?.id ?? NOBODY, NOBODY])
          requireResult(
            await verify(target, { address: held.address, user_id: id }),
            NEGATIVE,
            'exists: false, and no more',
          );
      }),
  },
  {
    id: 'verify/negative',
    sentence:
      'Negative: a well-formed address that does not match is not an error; the status is 200 and result.exists is false, the only field.',
    async run(target) {
      for (const address of [strangers.stellar, strangers.ethereum])
        requireResult(await verify(target, { address }), NEGATIVE, 'exists: false, and no more');
    },
  },
  {
    id: 'verify/malformed',
    sentence: 'A malformed address returns 400.',
    async run(target) {
      for (const address of ['GABC', '0x123', 'nonsense', '']) requireError(await verify(target, { address }), 400);
    },
  },
  {
    id: 'verify/missing',
    sentence: 'A missing address returns 400.',
    run: async (target) => requireError(await verify(target, {}), 400),
  },
];

export const lookupChecks: readonly Check[] = [...searchChecks, ...getChecks, ...verifyChecks];
