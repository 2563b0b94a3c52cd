import { type Answer, describeAnswer, requireError, requireResult, requireThat } from './answers.js';
import { findKnownAddresses, type KnownAddress, SAMPLE_SIZE, search, UNUSED, UNUSED_ID } from './questions.js';
import { ONE_USER, SEARCH, SUCCESS, type User } from './shapes.js';
import { type Check, NotObservable, type Target, whileUnchanged } from './target.js';

/** "GET /server/users/search" and "GET /server/users/{user_id}". */

const searchResult = (answer: Answer) => requireResult(answer, SEARCH, 'total_user and users');

async function findEmailUsers(target: Target): Promise<User[]> {
  const { users } = await target.sample();
  const some = users
    .filter((user) => user.auth_method === 'email' && user.auth_value.includes('@'))
    .slice(0, SAMPLE_SIZE);
  if (some.length === 0) throw new NotObservable('no user signs in by email');
  return some;
}

function requireUser(answer: Answer, user: User): void {
  const { users } = searchResult(answer);
  requireThat(
    users.some(({ id }) => id === user.id),
    answer,
    `users that include user ${user.id}`,
    describeAnswer(answer),
  );
}

function searchCheck(id: string, kind: 'linked' | 'login', network: KnownAddress['network'], what: string): Check {
  return {
    id: `search/${id}`,
    sentence: `address: Stellar address (G...) or Ethereum address (0x...). Searches ${what}.`,
    run: (target) =>
      whileUnchanged(target, async () => {
        for (const { user, address } of await findKnownAddresses(target, kind, network))
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
      if (user === undefined) throw new NotObservable('there are no users');
      const answer = await search(target, 'email', user.auth_method === 'email' ? user.auth_value : UNUSED.email);
      const { total_user: total, users } = searchResult(answer);
      requireThat(
        total === users.length,
        answer,
        `total_user ${users.length}, the number of users`,
        describeAnswer(answer),
      );
    },
  },
  {
    id: 'search/email',
    sentence: 'email: match on the login email.',
    run: (target) =>
      whileUnchanged(target, async () => {
        for (const user of await findEmailUsers(target))
          requireUser(await search(target, 'email', user.auth_value), user);
      }),
  },
  {
    id: 'search/email-case',
    sentence: 'email: case-insensitive.',
    run: (target) =>
      whileUnchanged(target, async () => {
        for (const user of await findEmailUsers(target)) {
          requireUser(await search(target, 'email', user.auth_value.toUpperCase()), user);
          requireUser(await search(target, 'email', user.auth_value.toLowerCase()), user);
        }
      }),
  },
  {
    id: 'search/email-exact',
    sentence: 'email: exact.',
    run: (target) =>
      whileUnchanged(target, async () => {
        for (const user of await findEmailUsers(target)) {
          const [local = '', domain = ''] = user.auth_value.split('@');
          for (const other of [`x${user.auth_value}`, `${local.slice(1)}@${domain}`, `%@${domain}`]) {
            const answer = await search(target, 'email', other);
            // The server may reject the value as malformed.
            if (answer.status === 400) continue;
            const { users } = searchResult(answer);
            const isFound = users.some(({ id }) => id === user.id);
            requireThat(!isFound, answer, 'no user with another email', `user ${user.id}`);
          }
        }
      }),
  },
  {
    id: 'search/every-match',
    sentence: 'Every match is returned, because one email can belong to more than one user.',
    run: (target) =>
      whileUnchanged(target, async () => {
        const { users } = await target.sample();
        const byEmail = new Map<string, User[]>();
        for (const user of users.filter(({ auth_value: value }) => /^[^@\s]+@[^@\s]+$/.test(value))) {
          const email = user.auth_value.toLowerCase();
          byEmail.set(email, [...(byEmail.get(email) ?? []), user]);
        }
        const [shared] = [...byEmail].filter(([, owners]) => owners.length > 1);
        if (shared === undefined) throw new NotObservable('no email belongs to more than one known user');
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
        ['email', UNUSED.email],
        ['address', UNUSED.stellar],
        ['address', UNUSED.ethereum],
      ] as const) {
        const answer = await search(target, parameter, value);
        const { total_user: total, users } = searchResult(answer);
        requireThat(total === 0 && users.length === 0, answer, 'total_user 0 and no users', describeAnswer(answer));
      }
    },
  },
  {
    id: 'search/both',
    sentence: 'Supplying both parameters returns 400.',
    async run(target) {
      const query = `email=${UNUSED.email}&address=${UNUSED.stellar}`;
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
      whileUnchanged(target, async () => {
        const { users } = await target.sample();
        const [user] = users.filter(({ accounts }) => accounts.length > 0);
        if (user === undefined) throw new NotObservable('no user has accounts');
        const answer = await target.ask(`/server/users/${user.id}`);
        const one = requireResult(answer, ONE_USER, 'one user');
        requireThat(one['id'] === user.id, answer, `user ${user.id}`, describeAnswer(answer));
        const [ids, listed] = [one['accounts'], user.accounts].map((accounts) =>
          JSON.stringify((accounts as User['accounts'] | undefined)?.map(({ id }) => id)),
        );
        requireThat(ids === listed, answer, `accounts ${listed}, as in the list`, describeAnswer(answer));
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
      const answer = await target.ask(`/server/users/${UNUSED_ID}`);
      const { result } = SUCCESS.safeParse(answer.body).data ?? {};
      if (result?.['id'] === UNUSED_ID) throw new NotObservable(`user ${UNUSED_ID} exists`);
      requireError(answer, 404);
    },
  },
];

export const searchAndGetChecks: readonly Check[] = [...searchChecks, ...getChecks];
