import { requireResult, requireThat } from './answers.js';
import {
  briefly,
  COUNT_PATH,
  countOf,
  createdAt,
  dayOf,
  findPivot,
  idsOf,
  invalidCheck,
  LIST_PATH,
  type ListedUser,
} from './list.js';
import { LIST } from './shapes.js';
import { type Check, LOGIN_METHODS, listAll, listOf, NotObservable, type Target, whileUnchanged } from './target.js';

/** The filters start_date, end_date and login_method of the list and count routes. */

function loginMethodOf({ auth_method: method }: ListedUser): string {
  return ['wallet', 'passkey', 'email'].includes(String(method)) ? String(method) : 'socials';
}

const onListAndCount = (...queries: string[]) =>
  queries.flatMap((query) => [`${LIST_PATH}?${query}`, `${COUNT_PATH}?${query}`]);

/** A day such that users of the sample were created before and after it. */
async function findPivotDay(target: Target) {
  const { newest, total } = await findPivot(target);
  const days = [...new Set(newest.map(dayOf))];
  const day = days[Math.floor(days.length / 2)];
  if (day === undefined || days.length < 3)
    throw new NotObservable(`the ${newest.length} newest users were created on fewer than three days`);
  return { newest, total, day };
}

/** Throws Mismatch unless the filter finds exactly `expected`. The sample must contain all matching users. */
async function requireMatches(target: Target, filter: string, expected: readonly ListedUser[]): Promise<void> {
  const found = await listAll(target, filter);
  const asked = { request: `GET ${LIST_PATH}?${filter}` };
  const [missing] = idsOf(expected).filter((id) => !idsOf(found.newest).includes(id));
  requireThat(
    missing === undefined,
    asked,
    `user ${missing} in the list`,
    `${found.newest.length} users without that user`,
  );
  const [extra] = idsOf(found.newest).filter((id) => !idsOf(expected).includes(id));
  requireThat(extra === undefined, asked, `${expected.length} users`, `user ${extra} in addition`);
  requireThat(found.total === expected.length, asked, `total_user ${expected.length}`, { total_user: found.total });
}

export const filterChecks: readonly Check[] = [
  {
    id: 'filters/start-date',
    sentence: 'start_date: include users created on or after this date. Formats: RFC 3339.',
    run: (target) =>
      whileUnchanged(target, async () => {
        const { newest, pivot, older, isWhole } = await findPivot(target);
        if (createdAt(older) === createdAt(pivot))
          throw new NotObservable('all users were created at the same instant');
        const expected = newest.filter((user) => createdAt(user) >= createdAt(pivot));
        if (!isWhole && expected.length === newest.length)
          throw new NotObservable('too many users were created at the same instant');
        await requireMatches(target, `start_date=${encodeURIComponent(String(pivot['created_at']))}`, expected);
      }),
  },
  {
    id: 'filters/end-date',
    sentence: 'end_date: include users created on or before this date. Same formats: RFC 3339.',
    run: (target) =>
      whileUnchanged(target, async () => {
        const { newest, pivot, newer, total } = await findPivot(target);
        if (createdAt(newer) === createdAt(pivot))
          throw new NotObservable('all users were created at the same instant');
        const left = newest.filter((user) => createdAt(user) <= createdAt(pivot));
        const filter = `end_date=${encodeURIComponent(String(pivot['created_at']))}`;
        await requireEnd(target, filter, left, total - (newest.length - left.length));
      }),
  },
  {
    id: 'filters/start-day',
    sentence: 'start_date: include users created on or after this date. Formats: YYYY-MM-DD.',
    run: (target) =>
      whileUnchanged(target, async () => {
        const { newest, day } = await findPivotDay(target);
        const expected = newest.filter((user) => dayOf(user) >= day);
        await requireMatches(target, `start_date=${day}`, expected);
      }),
  },
  {
    id: 'filters/end-day',
    sentence: 'end_date: include users created on or before this date. Same formats: YYYY-MM-DD.',
    run: (target) =>
      whileUnchanged(target, async () => {
        const { newest, day, total } = await findPivotDay(target);
        const left = newest.filter((user) => dayOf(user) <= day);
        await requireEnd(target, `end_date=${day}`, left, total - (newest.length - left.length));
      }),
  },
  {
    id: 'filters/date-offset',
    sentence: 'Formats: RFC 3339, which has offsets from UTC.',
    run: (target) =>
      whileUnchanged(target, async () => {
        const { pivot, older } = await findPivot(target);
        if (createdAt(older) === createdAt(pivot))
          throw new NotObservable('all users were created at the same instant');
        const shifted = new Date(createdAt(pivot) + 5 * 3_600_000).toISOString().replace('Z', '+05:00');
        const filter = `start_date=${encodeURIComponent(shifted)}`;
        const inUtc = await countOf(
          target,
          `start_date=${encodeURIComponent(new Date(createdAt(pivot)).toISOString())}`,
        );
        const { total_user: total } = await listOf(target, `${filter}&limit=1`);
        const asked = { request: `GET ${LIST_PATH}?${filter}` };
        requireThat(total === inUtc, asked, `total_user ${inUtc}, as for the same instant in UTC`, {
          total_user: total,
        });
      }),
  },
  invalidCheck(
    'filters/invalid-date',
    'An invalid date returns 400.',
    onListAndCount(
      ...['yesterday', '2026-13-45', '31/01/2026'].flatMap((date) => [`start_date=${date}`, `end_date=${date}`]),
    ),
  ),
  ...LOGIN_METHODS.map(
    (method): Check => ({
      id: `filters/login-method-${method}`,
      sentence: `login_method: one or more of wallet, socials, passkey, email: ${method}.`,
      run: (target) =>
        whileUnchanged(target, async () => {
          const { users, isWhole } = await target.sample();
          const known = users.filter((user) => loginMethodOf(user) === method).length;
          const answer = await target.ask(`${LIST_PATH}?login_method=${method}&limit=100`);
          const found = requireResult(answer, LIST, 'total_user and users');
          const others = found.users.filter((user) => loginMethodOf(user) !== method).map(briefly);
          requireThat(others.length === 0, answer, `only users with the login method ${method}`, others);
          const { total_user: total } = found;
          const expected = isWhole ? `total_user ${known}` : `total_user ${known} or more`;
          requireThat(isWhole ? total === known : total >= known, answer, expected, { total_user: total });
          if (total === 0) throw new NotObservable(`no user has the login method ${method}`);
        }),
    }),
  ),
  methodsCheck('comma', 'Multiple values may be sent comma-separated.', 2, ([a, b]) => `login_method=${a},${b}`),
  methodsCheck(
    'repeated',
    'Multiple values may be sent by repeating the parameter.',
    2,
    ([a, b]) => `login_method=${a}&login_method=${b}`,
  ),
  methodsCheck(
    'combined',
    'Multiple values may be sent comma-separated, by repeating the parameter, or both combined.',
    3,
    ([a, b, c]) => `login_method=${a},${b}&login_method=${c}`,
  ),
  {
    id: 'filters/together',
    sentence: 'List users of the project, newest first, with filters: several filters are combined with AND.',
    run: (target) =>
      whileUnchanged(target, async () => {
        const { newest, pivot, older, isWhole } = await findPivot(target);
        const since = newest.filter((user) => createdAt(user) >= createdAt(pivot));
        const expected = since.filter((user) => loginMethodOf(user) === loginMethodOf(pivot));
        if (expected.length === since.length || createdAt(older) === createdAt(pivot))
          throw new NotObservable('the newer half of the users has the same login method');
        if (!isWhole && since.length === newest.length)
          throw new NotObservable('too many users were created at the same instant');
        const at = encodeURIComponent(String(pivot['created_at']));
        await requireMatches(target, `start_date=${at}&login_method=${loginMethodOf(pivot)}`, expected);
      }),
  },
  invalidCheck(
    'filters/invalid-login-method',
    'An invalid login method returns 400.',
    onListAndCount('login_method=google', 'login_method=wallet,nonsense', 'login_method=email&login_method=nonsense'),
  ),
];

/** Several login methods together find the sum of what each of them finds. */
function methodsCheck(
  name: string,
  sentence: string,
  needed: number,
  query: (methods: readonly string[]) => string,
): Check {
  return {
    id: `filters/login-method-${name}`,
    sentence,
    run: (target) =>
      whileUnchanged(target, async () => {
        const totals = [];
        for (const method of LOGIN_METHODS)
          totals.push({ method, total: await countOf(target, `login_method=${method}`) });
        const used = totals.filter(({ total }) => total > 0).slice(0, needed);
        if (used.length < needed) throw new NotObservable(`users have fewer than ${needed} login methods`);
        const filter = query(used.map(({ method }) => method));
        const expected = used.reduce((sum, { total }) => sum + total, 0);
        const { total_user: total } = await listOf(target, `${filter}&limit=1`);
        const asked = { request: `GET ${LIST_PATH}?${filter}` };
        requireThat(total === expected, asked, `total_user ${expected}, the sum of the single counts`, {
          total_user: total,
        });
      }),
  };
}

/** Throws Mismatch unless a filter that excludes the newest users has the right total and the right first page. */
async function requireEnd(
  target: Target,
  filter: string,
  expected: readonly ListedUser[],
  total: number,
): Promise<void> {
  const answer = await target.ask(`${LIST_PATH}?${filter}&limit=100`);
  const found = requireResult(answer, LIST, 'total_user and users');
  requireThat(found.total_user === total, answer, `total_user ${total}`, { total_user: found.total_user });
  const expectedIds = idsOf(expected).slice(0, 100);
  const [missing] = expectedIds.filter((id) => !idsOf(found.users).includes(id));
  requireThat(missing === undefined, answer, `user ${missing} in the list`, idsOf(found.users).slice(0, 10));
}
