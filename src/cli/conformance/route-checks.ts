import { z } from 'zod';
import { NOBODY, search, strangers, verify } from './lookup-checks.js';
import { ACCOUNT_FIELDS, NEGATIVE, ONE_USER, SUCCESS, USER_FIELDS } from './shapes.js';
import {
  type Answer,
  basicOf,
  type Check,
  type Credentials,
  headersOf,
  LOGIN_METHODS,
  listOf,
  Mismatch,
  type Question,
  requireError,
  requireResult,
  requireStatus,
  requireThat,
  requireWrite,
  shown,
  steadily,
  type Target,
  Unobservable,
} from './target.js';

/** What holds for every route: credentials, the separation of projects, the envelope, and the forms of users and accounts. */

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

function requireOther({ options }: Target): Credentials {
  if (options.other === null) throw new Unobservable('it takes a second project: --other-app-id');
  return options.other;
}

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

/** Every user and every account that is seen. */
async function seen(
  target: Target,
): Promise<{ users: Record<string, unknown>[]; accounts: Record<string, unknown>[] }> {
  const listed = [...(await target.sample()).newest];
  for (const method of LOGIN_METHODS) listed.push(...(await listOf(target, `login_method=${method}`)).users);
  if (listed.length === 0) throw new Unobservable('there are no users');
  const accounts = listed.flatMap((user) => z.array(ONE_USER).safeParse(user['accounts']).data ?? []);
  return { users: listed, accounts };
}

function fieldCheck(kind: 'user' | 'account', field: string, form: z.ZodType, sentence: string): Check {
  return {
    id: `${kind}/${field.replaceAll('_', '-')}`,
    sentence,
    async run(target) {
      const { users, accounts } = await seen(target);
      const objects = kind === 'user' ? users : accounts;
      if (objects.length === 0) throw new Unobservable('no user has accounts');
      const bad = objects.find((object) => !form.safeParse(object[field]).success);
      const asked = { request: 'GET /server/users' };
      const arrived = `${JSON.stringify(bad?.[field])} in ${kind} ${bad?.['id']}`;
      requireThat(bad === undefined, asked, `${field} as the contract has it`, arrived);
      // Nothing is seen of a value that no user has.
      if (objects.every((object) => object[field] === null || object[field] === undefined))
        throw new Unobservable(`no ${kind} has a ${field}`);
    },
  };
}

const STATE = /delet|remov|banned|^(state|status|is_)/i;
const SECRET = /private|secret|seed|mnemonic|password|encrypted/i;

/** The names of the fields of a value, and of whatever is in it. */
function namesIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) =>
    Array.isArray(value) ? namesIn(inner) : [name, ...namesIn(inner)],
  );
}

const resourceChecks: Check[] = [
  fieldCheck('user', 'id', USER_FIELDS.id, 'id: integer.'),
  fieldCheck('user', 'auth_method', USER_FIELDS.auth_method, 'auth_method: string.'),
  fieldCheck('user', 'auth_value', USER_FIELDS.auth_value, 'auth_value: string.'),
  fieldCheck('user', 'wallet', USER_FIELDS.wallet, 'wallet: string, when applicable.'),
  fieldCheck('user', 'created_at', USER_FIELDS.created_at, 'created_at: string, timestamp; RFC 3339 in UTC.'),
  fieldCheck('user', 'last_login', USER_FIELDS.last_login, 'last_login: string, timestamp.'),
  fieldCheck('user', 'login_count', USER_FIELDS.login_count, 'login_count: integer.'),
  fieldCheck('user', 'accounts', USER_FIELDS.accounts, 'accounts: array of account objects.'),
  {
    id: 'user/email-value',
    sentence: 'auth_value: for an email login, the login email.',
    async run(target) {
      const { users } = await seen(target);
      const byEmail = users.filter(({ auth_method: method }) => method === 'email');
      if (byEmail.length === 0) throw new Unobservable('no user signs in by email');
      const bad = byEmail.find(({ auth_value: value }) => !String(value).includes('@'));
      requireThat(bad === undefined, { request: 'GET /server/users' }, 'an email', bad?.['auth_value']);
    },
  },
  {
    id: 'user/no-secrets',
    sentence: 'User responses contain public account addresses only, never private keys or other wallet secrets.',
    async run(target) {
      const { users } = await seen(target);
      const names = [...new Set(namesIn(users))].filter((name) => SECRET.test(name));
      const asked = { request: 'GET /server/users' };
      requireThat(names.length === 0, asked, 'no field of a secret', names);
      const isSeed = /"S[A-Z2-7]{55}"/.test(JSON.stringify(users));
      requireThat(!isSeed, asked, 'no Stellar secret seed', 'one');
    },
  },
  {
    id: 'user/no-state',
    sentence: 'No state field is exposed on a user.',
    async run(target) {
      const { users } = await seen(target);
      const names = [...new Set(users.flatMap(Object.keys))].filter((name) => STATE.test(name));
      requireThat(names.length === 0, { request: 'GET /server/users' }, 'no field of a state', names);
    },
  },
  {
    id: 'user/same-everywhere',
    sentence: 'User object: returned by the list, search and get-one routes.',
    run: (target) =>
      steadily(target, async () => {
        const [user] = (await target.sample()).users.filter(({ auth_method: method }) => method === 'email');
        if (user === undefined) throw new Unobservable('no user signs in by email');
        const answers = [
          await target.ask(`/server/users/${user.id}`),
          await search(target, 'email', user.auth_value),
        ] as const;
        const one = requireResult(answers[0], ONE_USER, 'one user');
        const { users } = requireResult(answers[1], z.object({ users: z.array(ONE_USER) }), 'users');
        const hit = users.find(({ id }) => id === user.id);
        for (const [place, other] of [one, hit].entries()) {
          const answer = answers[place as 0 | 1];
          for (const [field, form] of Object.entries(USER_FIELDS)) {
            const isRight = other !== undefined && form.safeParse(other[field]).success;
            if (!isRight) throw new Mismatch(answer, `a user with ${field}`, shown(answer));
          }
          const isSame = other?.['id'] === user.id && other['created_at'] === user.created_at;
          requireThat(isSame, answer, `the user ${user.id} of the list`, shown(answer));
        }
      }),
  },
  fieldCheck('account', 'id', ACCOUNT_FIELDS.id, 'Account id: integer.'),
  fieldCheck('account', 'network', ACCOUNT_FIELDS.network, 'network: string, for instance stellar.'),
  fieldCheck('account', 'public_key', ACCOUNT_FIELDS.public_key, 'public_key: string, the public address.'),
  {
    id: 'account/stellar-form',
    sentence: 'public_key: Stellar form starts with G.',
    async run(target) {
      const { accounts } = await seen(target);
      const onStellar = accounts.filter(({ network }) => network === 'stellar');
      if (onStellar.length === 0) throw new Unobservable('there is no account on stellar');
      const bad = onStellar.find(({ public_key: key }) => !/^G[A-Z2-7]{55}$/.test(String(key)));
      requireThat(bad === undefined, { request: 'GET /server/users' }, 'G and 55 more characters', bad?.['public_key']);
    },
  },
];

export const routeChecks: readonly Check[] = [
  ...authenticationChecks,
  ...projectChecks,
  ...envelopeChecks,
  ...resourceChecks,
];
