import { z } from 'zod';
import type { Credentials } from '../domain/projects.js';
import { NOBODY, search, strangers, verify } from './lookup-checks.js';
import { NEGATIVE, SEARCH, SUCCESS } from './shapes.js';
import {
  type Answer,
  basicOf,
  type Check,
  headersOf,
  type Question,
  requireError,
  requireOther,
  requireResult,
  requireStatus,
  requireThat,
  requireWrite,
  shown,
  type Target,
  Unobservable,
} from './target.js';

/** What holds for every route: credentials, the separation of projects, and the envelope. */

/** Each of the six routes, asking for nobody, so that a server which takes wrong credentials for right ones does no harm. */
const ROUTES = {
  list: { path: '/server/users?limit=1' },
  count: { path: '/server/users/count' },
  search: { path: `/server/users/search?email=${strangers.email}` },
  get: { path: `/server/users/${NOBODY}` },
  delete: { method: 'DELETE', path: `/server/users/${NOBODY}` },
  verify: { method: 'POST', path: '/server/wallets/verify', body: { address: strangers.stellar } },
} satisfies Record<string, Question>;
const SINGLE_USER = ['get', 'delete'];
const UNAUTHORIZED = 'Missing or invalid App ID or App Secret returns 401 with an error body.';

const wrong = (secret: string) => `${secret.slice(0, -1)}${secret.endsWith('A') ? 'B' : 'A'}`;

/** A route that is asked with right credentials takes them. */
async function requireAccepted(target: Target, name: string, question: Question): Promise<void> {
  if (name === 'delete') requireWrite(target);
  const answer = await target.ask(question);
  const statuses = SINGLE_USER.includes(name) ? [200, 404] : [200];
  requireThat(statuses.includes(answer.status), answer, statuses.join(' or '), shown(answer));
}

function eachRoute(
  id: string,
  sentence: string,
  run: (target: Target, name: string, question: Question) => Promise<void>,
): Check[] {
  return Object.entries(ROUTES).map(([name, question]) => ({
    id: `${id}/${name}`,
    sentence,
    run: (target) => run(target, name, question),
  }));
}

function refusedWith(id: string, what: string, headers: (options: Credentials) => Record<string, string>): Check {
  return {
    id: `authentication/${id}`,
    sentence: `${UNAUTHORIZED} Here: ${what}.`,
    run: async (target) => requireError(await target.ask({ ...ROUTES.list, headers: headers(target.options) }), 401),
  };
}

const authenticationChecks: Check[] = [
  ...eachRoute(
    'authentication/missing',
    `All routes require authentication. ${UNAUTHORIZED}`,
    async (target, _name, question) => requireError(await target.ask({ ...question, headers: {} }), 401),
  ),
  ...eachRoute('authentication/wrong-secret', UNAUTHORIZED, async (target, _name, question) => {
    const { appId, appSecret } = target.options;
    requireError(await target.ask({ ...question, headers: headersOf({ appId, appSecret: wrong(appSecret) }) }), 401);
  }),
  ...eachRoute(
    'authentication/headers',
    'Header service-app-id carrying <APP_ID> and header service-app-secret carrying <APP_SECRET>.',
    (target, name, question) => requireAccepted(target, name, { ...question, headers: headersOf(target.options) }),
  ),
  ...eachRoute(
    'authentication/basic',
    'Authorization: Basic <base64(app-id:app-secret)>, equivalent to the headers.',
    (target, name, question) => requireAccepted(target, name, { ...question, headers: basicOf(target.options) }),
  ),
  refusedWith('unknown-app-id', 'an unknown App ID', ({ appId, appSecret }) =>
    headersOf({ appId: wrong(appId), appSecret }),
  ),
  refusedWith('no-app-id', 'no App ID', ({ appSecret }) => ({ 'service-app-secret': appSecret })),
  refusedWith('no-app-secret', 'no App Secret', ({ appId }) => ({ 'service-app-id': appId })),
  refusedWith('empty', 'empty ones', () => headersOf({ appId: '', appSecret: '' })),
  refusedWith('basic-wrong-secret', 'a wrong App Secret by HTTP Basic', ({ appId, appSecret }) =>
    basicOf({ appId, appSecret: wrong(appSecret) }),
  ),
  refusedWith('basic-malformed', 'HTTP Basic without a colon', ({ appId }) => ({
    authorization: `Basic ${Buffer.from(appId).toString('base64')}`,
  })),
  {
    id: 'authentication/secret-stays',
    sentence: 'The App Secret must stay private: no answer repeats it.',
    async run(target) {
      const { appId, appSecret } = target.options;
      const answers = [
        await target.ask('/server/users?limit=1'),
        await target.ask('/server/users?limit=x'),
        await target.ask(`/server/users/${NOBODY}`),
        await target.ask({ path: '/server/users', headers: headersOf({ appId: wrong(appId), appSecret }) }),
      ];
      for (const answer of answers) {
        const isThere = answer.text.includes(appSecret);
        requireThat(!isThere, answer, 'an answer without the App Secret', 'one with it');
      }
    },
  },
  {
    id: 'authentication/https',
    sentence: 'Base64 is not encryption; calls are made over HTTPS.',
    async run({ options }) {
      if (!options.url.startsWith('https:')) throw new Unobservable('the URL is http: TLS may end before the server');
    },
  },
];

const OWN_USERS = 'Every route operates only on users of the project identified by the credentials of the request';

const projectChecks: Check[] = [
  {
    id: 'projects/credentials',
    sentence: 'Credentials are per project; separate projects use separate credentials.',
    async run(target) {
      const { appSecret } = requireOther(target);
      const headers = headersOf({ appId: target.options.appId, appSecret });
      requireError(await target.ask({ path: '/server/users', headers }), 401);
    },
  },
  {
    id: 'projects/get',
    sentence: `${OWN_USERS}: a user of another project gives 404.`,
    async run(target) {
      const headers = headersOf(requireOther(target));
      const [user] = (await target.sample()).users;
      if (user === undefined) throw new Unobservable('there are no users');
      requireError(await target.ask({ path: `/server/users/${user.id}`, headers }), 404);
    },
  },
  {
    id: 'projects/list',
    sentence: `${OWN_USERS}: list.`,
    async run(target) {
      const headers = headersOf(requireOther(target));
      const own = new Set((await target.sample()).users.map(({ id }) => id));
      if (own.size === 0) throw new Unobservable('there are no users');
      const answer = await target.ask({ path: '/server/users?limit=100', headers });
      const { users } = requireResult(answer, z.object({ users: z.array(z.record(z.string(), z.unknown())) }), 'users');
      const shared = users.map(({ id }) => id).filter((id) => own.has(Number(id)));
      requireThat(shared.length === 0, answer, 'no user of the first project', shared);
    },
  },
  {
    id: 'projects/search',
    sentence: `${OWN_USERS}: search.`,
    async run(target) {
      const headers = headersOf(requireOther(target));
      const [user] = (await target.sample()).users.filter(({ auth_method: method }) => method === 'email');
      if (user === undefined) throw new Unobservable('no user signs in by email');
      const path = `/server/users/search?email=${encodeURIComponent(user.auth_value)}`;
      const answer = await target.ask({ path, headers });
      const { users } = requireResult(answer, SEARCH, 'total_user and users');
      requireThat(!users.some(({ id }) => id === user.id), answer, 'no user of the first project', shown(answer));
    },
  },
  {
    id: 'projects/verify',
    sentence: `${OWN_USERS}: verify.`,
    async run(target) {
      const headers = headersOf(requireOther(target));
      const holders = (await target.sample()).users.filter(({ accounts }) => accounts.length > 0);
      const [account] = holders.flatMap(({ accounts }) => accounts);
      const [user] = holders;
      if (account === undefined || user === undefined) throw new Unobservable('no user has accounts');
      const body = { address: account.public_key, user_id: user.id };
      const answer = await target.ask({ method: 'POST', path: '/server/wallets/verify', body, headers });
      requireResult(answer, NEGATIVE, 'exists: false, and no more');
    },
  },
];

const isSuccess = (answer: Answer) => SUCCESS.safeParse(answer.body).success;

const envelopeChecks: Check[] = [
  ...Object.entries(ROUTES)
    .filter(([name]) => !SINGLE_USER.includes(name))
    .map(
      ([name, question]): Check => ({
        id: `envelope/success/${name}`,
        sentence: 'Success with data: object with message (string) and result (object). Success status is 200.',
        async run(target) {
          const answer = await target.ask(question);
          const isRight = answer.status === 200 && isSuccess(answer);
          requireThat(isRight, answer, '200 with message (string) and result (object)', shown(answer));
        },
      }),
    ),
  {
    id: 'envelope/success/get',
    sentence: 'Success with data: object with message (string) and result (object). Success status is 200.',
    async run(target) {
      const [user] = (await target.sample()).users;
      if (user === undefined) throw new Unobservable('there are no users');
      const answer = await target.ask(`/server/users/${user.id}`);
      if (answer.status === 404) throw new Unobservable('the user has gone meanwhile');
      const isRight = answer.status === 200 && isSuccess(answer);
      requireThat(isRight, answer, '200 with message (string) and result (object)', shown(answer));
    },
  },
  {
    id: 'envelope/error',
    sentence: 'Error: object with error (string).',
    async run(target) {
      requireError(await target.ask('/server/users?limit=x'), 400);
      requireError(await target.ask({ path: '/server/users', headers: {} }), 401);
      const unknown = await target.ask(`/server/users/${NOBODY}`);
      if (unknown.status !== 200) requireError(unknown, 404);
    },
  },
  {
    id: 'envelope/json',
    sentence: 'Requests and responses are JSON.',
    async run(target) {
      const refused = await target.ask({ path: '/server/users', headers: {} });
      for (const answer of [await target.ask('/server/users?limit=1'), refused]) {
        const isJson = /^application\/json\b/i.test(answer.contentType) && answer.body !== undefined;
        requireThat(isJson, answer, 'application/json', `${answer.contentType || 'no content-type'}: ${shown(answer)}`);
      }
    },
  },
  {
    id: 'errors/not-found',
    sentence: 'Only the single-user routes (get one, delete one) return 404.',
    async run(target) {
      const answers = [
        await target.ask('/server/users?page=999999'),
        await target.ask('/server/users/count?end_date=1980-01-01'),
        await search(target, 'email', strangers.email),
        await search(target, 'address', strangers.ethereum),
        await verify(target, { address: strangers.ethereum, user_id: NOBODY }),
      ];
      for (const answer of answers) requireStatus(answer, 200);
    },
  },
];

export const routeChecks: readonly Check[] = [...authenticationChecks, ...projectChecks, ...envelopeChecks];
