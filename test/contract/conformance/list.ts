import { describeAnswer, requireError, requireResult, requireThat } from './answers.js';
import { COUNT, LIST } from './shapes.js';
import { type Check, LOGIN_METHODS, listAll, listOf, NotObservable, type Target, whileUnchanged } from './target.js';

/** "GET /server/users" and "GET /server/users/count"; their filters are in filters.ts. */

export const LIST_PATH = '/server/users';
export const COUNT_PATH = '/server/users/count';

export type ListedUser = Readonly<Record<string, unknown>>;
export const createdAt = (user: ListedUser) => Date.parse(String(user['created_at']));
export const idsOf = (users: readonly ListedUser[]) => users.map(({ id }) => id);
export const dayOf = (user: ListedUser) => new Date(createdAt(user)).toISOString().slice(0, 10);

export async function countOf(target: Target, filter: string): Promise<number> {
  const answer = await target.ask(`${COUNT_PATH}?${filter}`);
  return requireResult(answer, COUNT, 'total_user').total_user;
}

/** Each path must be answered with 400. */
export function invalidCheck(id: string, sentence: string, paths: readonly string[]): Check {
  return {
    id,
    sentence,
    async run(target) {
      for (const path of paths) requireError(await target.ask(path), 400);
    },
  };
}

/** A user in the middle of the newest users, so that a filter by the user's date has users on both sides. */
export async function findPivot(target: Target) {
  const { newest, total, isWhole } = await target.sample();
  const dated = newest.filter((user) => !Number.isNaN(createdAt(user)));
  const pivot = dated[Math.floor(dated.length / 2)];
  const [newer, older] = [dated[0], dated.at(-1)];
  if (pivot === undefined || newer === undefined || older === undefined) throw new NotObservable('there are no users');
  return { newest: dated, total, isWhole, pivot, newer, older };
}

const listChecks: Check[] = [
  {
    id: 'list/result',
    sentence:
      'Response 200: message, and result with fields page (integer), limit (integer), total_user (integer) and users (array).',
    run: async (target) => void (await listOf(target, 'page=1&limit=2')),
  },
  {
    id: 'list/newest-first',
    sentence: 'Ordering: newest first.',
    run: (target) =>
      whileUnchanged(target, async () => {
        const { newest } = await listAll(target, '');
        if (newest.length < 2) throw new NotObservable('there are fewer than two users');
        if (createdAt(newest[0] as ListedUser) === createdAt(newest.at(-1) as ListedUser))
          throw new NotObservable('all users were created at the same instant');
        for (const [index, user] of newest.entries()) {
          const next = newest[index + 1];
          if (next === undefined) break;
          const asked = { request: `GET ${LIST_PATH}?limit=100&page=1, 2, 3` };
          const isOrdered = createdAt(user) >= createdAt(next);
          requireThat(isOrdered, asked, 'each user created no later than the previous one', [user, next].map(briefly));
        }
      }),
  },
  {
    id: 'list/page-default',
    sentence: 'page: default 1.',
    run: (target) =>
      whileUnchanged(target, async () => {
        const byDefault = await target.ask(`${LIST_PATH}?limit=5`);
        const { page, users } = requireResult(byDefault, LIST, 'page and users');
        requireThat(page === 1, byDefault, 'page 1', { page });
        const first = await listOf(target, 'limit=5&page=1');
        requireThat(sameIds(users, first.users), byDefault, 'the users of page 1', idsOf(users));
      }),
  },
  {
    id: 'list/limit-default',
    sentence: 'limit: default 10.',
    async run(target) {
      const answer = await target.ask(LIST_PATH);
      const { limit, users, total_user: total } = requireResult(answer, LIST, 'limit and users');
      requireThat(limit === 10, answer, 'limit 10', { limit });
      const expected = Math.min(10, total);
      requireThat(users.length === expected, answer, `${expected} users`, `${users.length} users`);
    },
  },
  {
    id: 'list/limit',
    sentence: 'limit: users per page.',
    async run(target) {
      for (const limit of [1, 3]) {
        const answer = await target.ask(`${LIST_PATH}?limit=${limit}`);
        const result = requireResult(answer, LIST, 'limit and users');
        requireThat(result.limit === limit, answer, `limit ${limit}`, { limit: result.limit });
        const expected = Math.min(limit, result.total_user);
        requireThat(result.users.length === expected, answer, `${expected} users`, `${result.users.length} users`);
      }
    },
  },
  {
    id: 'list/limit-maximum',
    sentence: 'limit: maximum 100.',
    async run(target) {
      const answer = await target.ask(`${LIST_PATH}?limit=100`);
      const { limit, users, total_user: total } = requireResult(answer, LIST, 'limit and users');
      requireThat(limit === 100, answer, 'limit 100', { limit });
      const expected = Math.min(100, total);
      requireThat(users.length === expected, answer, `${expected} users`, `${users.length} users`);
      requireError(await target.ask(`${LIST_PATH}?limit=101`), 400);
    },
  },
  {
    id: 'list/page',
    sentence: 'page: page number.',
    run: (target) =>
      whileUnchanged(target, async () => {
        const all = await listOf(target, 'limit=6');
        if (all.users.length < 3) throw new NotObservable('there are fewer than three users');
        const pages = [];
        for (const page of [1, 2, 3]) {
          const answer = await target.ask(`${LIST_PATH}?limit=2&page=${page}`);
          const result = requireResult(answer, LIST, 'page and users');
          requireThat(result.page === page, answer, `page ${page}`, { page: result.page });
          pages.push(...result.users);
        }
        const asked = { request: `GET ${LIST_PATH}?limit=2&page=1, 2, 3` };
        requireThat(sameIds(pages, all.users), asked, `users ${idsOf(all.users)}, as limit=6 lists them`, idsOf(pages));
      }),
  },
  {
    id: 'list/total',
    sentence: 'total_user (integer, total count of matching users).',
    run: (target) =>
      whileUnchanged(target, async () => {
        const { total_user: total } = await listOf(target, 'limit=1');
        if (total === 0) throw new NotObservable('there are no users');
        const last = Math.ceil(total / 100);
        for (const [page, expected] of [
          [last, total - (last - 1) * 100],
          [last + 1, 0],
        ] as const) {
          const answer = await target.ask(`${LIST_PATH}?limit=100&page=${page}`);
          const { users } = requireResult(answer, LIST, 'total_user and users');
          const sentence = `${expected} users on page ${page}, if the total is ${total}`;
          requireThat(users.length === expected, answer, sentence, `${users.length} users`);
        }
      }),
  },
  invalidCheck(
    'list/invalid-page',
    'An invalid page returns 400.',
    ['0', '-1', '1.5', 'x'].map((page) => `${LIST_PATH}?page=${page}`),
  ),
  invalidCheck(
    'list/invalid-limit',
    'An invalid limit returns 400.',
    ['0', '-1', '1.5', 'x', '101'].map((limit) => `${LIST_PATH}?limit=${limit}`),
  ),
];

const countChecks: Check[] = [
  {
    id: 'count/result',
    sentence: 'Response 200: message, and result with total_user (integer).',
    run: async (target) => void (await countOf(target, '')),
  },
  {
    id: 'count/no-records',
    sentence: 'Does not fetch user records.',
    async run(target) {
      const answer = await target.ask(COUNT_PATH);
      const result = requireResult(answer, COUNT, 'total_user');
      requireThat(!Object.values(result).some(Array.isArray), answer, 'total_user only', describeAnswer(answer));
    },
  },
  {
    id: 'count/same-rules',
    sentence: 'Accepts start_date, end_date and login_method with the same rules as the list route.',
    run: (target) =>
      whileUnchanged(target, async () => {
        const { pivot } = await findPivot(target);
        const at = encodeURIComponent(String(pivot['created_at']));
        const methods = LOGIN_METHODS.map((method) => `login_method=${method}`);
        for (const filter of ['', `start_date=${at}`, `end_date=${at}`, `end_date=${dayOf(pivot)}`, ...methods]) {
          const { total_user: listed } = await listOf(target, `${filter}&limit=1`);
          const counted = await countOf(target, filter);
          const asked = { request: `GET ${COUNT_PATH}?${filter}` };
          requireThat(counted === listed, asked, `total_user ${listed}, as in the list`, { total_user: counted });
        }
      }),
  },
];

function sameIds(some: readonly ListedUser[], others: readonly ListedUser[]): boolean {
  return JSON.stringify(idsOf(some)) === JSON.stringify(idsOf(others));
}

export function briefly({ id, auth_method, created_at }: ListedUser) {
  return { id, auth_method, created_at };
}

export const listAndCountChecks: readonly Check[] = [...listChecks, ...countChecks];
