import { LIST } from './shapes.js';
import {
  type Check,
  LOGIN_METHODS,
  listAll,
  listOf,
  requireResult,
  requireThat,
  steadily,
  type Target,
  Unobservable,
} from './target.js';
import {
  briefly,
  COUNT_PATH,
  countOf,
  createdAt,
  dayOf,
  idsOf,
  LIST_PATH,
  type ListedUser,
  pivotOf,
  refused,
} from './users-checks.js';

/** The filters of "GET /server/users" and "GET /server/users/count". */

function kindOf({ auth_method: method }: ListedUser): string {
  return ['wallet', 'passkey', 'email'].includes(String(method)) ? String(method) : 'socials';
}

const both = (...queries: string[]) => queries.flatMap((query) => [`${LIST_PATH}?${query}`, `${COUNT_PATH}?${query}`]);

/** The same, on a day before which and after which users of the sample were created. */
async function pivotDayOf(target: Target) {
  const { newest, total } = await pivotOf(target);
  const days = [...new Set(newest.map(dayOf))];
  const day = days[Math.floor(days.length / 2)];
  if (day === undefined || days.length < 3)
    throw new Unobservable(`the ${newest.length} newest users were created on fewer than three days`);
  return { newest, total, day };
}

/** Holds a filter to the newest users who match it, all of whom the sample has. */
async function requireMatches(target: Target, filter: string, expected: readonly ListedUser[]): Promise<void> {
  const found = await listAll(target, filter);
  const asked = { request: `GET ${LIST_PATH}?${filter}` };
  const [missing] = idsOf(expected).filter((id) => !idsOf(found.newest).includes(id));
  requireThat(missing === undefined, asked, `user ${missing} among them`, `${found.newest.length} users without`);
  const [extra] = idsOf(found.newest).filter((id) => !idsOf(expected).includes(id));
  requireThat(extra === undefined, asked, `${expected.length} users`, `also user ${extra}`);
  requireThat(found.total === expected.length, asked, `total_user ${expected.length}`, { total_user: found.total });
}

export const filterChecks: readonly Check[] = [
  {
    id: 'filters/start-date',
    sentence: 'start_date: include users created on or after this date. Formats: RFC 3339.',
    run: (target) =>
      steadily(target, async () => {
        const { newest, pivot, older, isWhole } = await pivotOf(target);
        if (createdAt(older) === createdAt(pivot)) throw new Unobservable('no user is older than another');
        const expected = newest.filter((user) => createdAt(user) >= createdAt(pivot));
        if (!isWhole && expected.length === newest.length) throw new Unobservable('too many users of one instant');
        await requireMatches(target, `start_date=${encodeURIComponent(String(pivot['created_at']))}`, expected);
      }),
  },
  {
    id: 'filters/end-date',
    sentence: 'end_date: include users created on or before this date. Same formats: RFC 3339.',
    run: (target) =>
      steadily(target, async () => {
        const { newest, pivot, newer, total } = await pivotOf(target);
        if (createdAt(newer) === createdAt(pivot)) throw new Unobservable('no user is newer than another');
        const left = newest.filter((user) => createdAt(user) <= createdAt(pivot));
        const filter = `end_date=${encodeURIComponent(String(pivot['created_at']))}`;
        await requireEnd(target, filter, left, total - (newest.length - left.length));
      }),
  },
  {
    id: 'filters/start-day',
    sentence: 'start_date: include users created on or after this date. Formats: YYYY-MM-DD.',
    run: (target) =>
      steadily(target, async () => {
        const { newest, day } = await pivotDayOf(target);
        const expected = newest.filter((user) => dayOf(user) >= day);
        await requireMatches(target, `start_date=${day}`, expected);
      }),
  },
  {
    id: 'filters/end-day',
    sentence: 'end_date: include users created on or before this date. Same formats: YYYY-MM-DD.',
    run: (target) =>
      steadily(target, async () => {
        const { newest, day, total } = await pivotDayOf(target);
        const left = newest.filter((user) => dayOf(user) <= day);
        await requireEnd(target, `end_date=${day}`, left, total - (newest.length - left.length));
      }),
  },
  {
    id: 'filters/date-offset',
    sentence: 'Formats: RFC 3339, which has offsets from UTC.',
    run: (target) =>
      steadily(target, async () => {
        const { pivot, older } = await pivotOf(target);
        if (createdAt(older) === createdAt(pivot)) throw new Unobservable('no user is older than another');
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
  refused(
    'filters/invalid-date',
    'An invalid date returns 400.',
    both(...['yesterday', '2026-13-45', '31/01/2026'].flatMap((date) => [`start_date=${date}`, `end_date=${date}`])),
  ),
  ...LOGIN_METHODS.map(
    (method): Check => ({
      id: `filters/login-method-${method}`,
      sentence: `login_method: one or more of wallet, socials, passkey, email: ${method}.`,
      run: (target) =>
        steadily(target, async () => {
          const { users, isWhole } = await target.sample();
          const known = users.filter((user) => kindOf(user) === method).length;
          const answer = await target.ask(`${LIST_PATH}?login_method=${method}&limit=100`);
          const found = requireResult(answer, LIST, 'total_user and users');
          const strangers = found.users.filter((user) => kindOf(user) !== method).map(briefly);
          requireThat(strangers.length === 0, answer, `only users who sign in by ${method}`, strangers);
          const { total_user: total } = found;
          const expected = isWhole ? `total_user ${known}` : `total_user ${known} or more`;
          requireThat(isWhole ? total === known : total >= known, answer, expected, { total_user: total });
          if (total === 0) throw new Unobservable(`no user signs in by ${method}`);
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
    sentence: 'List users of the project, newest first, with filters: of several, all hold.',
    run: (target) =>
      steadily(target, async () => {
        const { newest, pivot, older, isWhole } = await pivotOf(target);
        const since = newest.filter((user) => createdAt(user) >= createdAt(pivot));
        const expected = since.filter((user) => kindOf(user) === kindOf(pivot));
        if (expected.length === since.length || createdAt(older) === createdAt(pivot))
          throw new Unobservable('the newer half of the users sign in alike');
        if (!isWhole && since.length === newest.length) throw new Unobservable('too many users of one instant');
        const at = encodeURIComponent(String(pivot['created_at']));
        await requireMatches(target, `start_date=${at}&login_method=${kindOf(pivot)}`, expected);
      }),
  },
  refused(
    'filters/invalid-login-method',
    'An invalid login method returns 400.',
    both('login_method=google', 'login_method=wallet,nonsense', 'login_method=email&login_method=nonsense'),
  ),
];

/** Several login methods find what each of them finds alone. */
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
      steadily(target, async () => {
        const totals = [];
        for (const method of LOGIN_METHODS)
          totals.push({ method, total: await countOf(target, `login_method=${method}`) });
        const used = totals.filter(({ total }) => total > 0).slice(0, needed);
        if (used.length < needed) throw new Unobservable(`users sign in by fewer than ${needed} login methods`);
        const filter = query(used.map(({ method }) => method));
        const expected = used.reduce((sum, { total }) => sum + total, 0);
        const { total_user: total } = await listOf(target, `${filter}&limit=1`);
        const asked = { request: `GET ${LIST_PATH}?${filter}` };
        requireThat(total === expected, asked, `total_user ${expected}, the sum of each`, { total_user: total });
      }),
  };
}

/** Holds a filter that leaves out the newest to its total, and to the newest of those who are left. */
async function requireEnd(target: Target, filter: string, left: readonly ListedUser[], total: number): Promise<void> {
  const answer = await target.ask(`${LIST_PATH}?${filter}&limit=100`);
  const found = requireResult(answer, LIST, 'total_user and users');
  requireThat(found.total_user === total, answer, `total_user ${total}`, { total_user: found.total_user });
  const expected = idsOf(left).slice(0, 100);
  const [missing] = expected.filter((id) => !idsOf(found.users).includes(id));
  requireThat(missing === undefined, answer, `user ${missing} among them`, idsOf(found.users).slice(0, 10));
}
