import { describeAnswer, requireError, requireThat } from './answers.js';
import { ROUTES, SINGLE_USER_ROUTES, UNUSED_ID } from './questions.js';
import {
  basicOf,
  type Check,
  type Credentials,
  headersOf,
  NotObservable,
  type Question,
  requireWrite,
  type Target,
} from './target.js';

/** "Authentication". */

const UNAUTHORIZED = 'Missing or invalid App ID or App Secret returns 401 with an error body.';

/** The text with another last character. */
const altered = (text: string) => `${text.slice(0, -1)}${text.endsWith('A') ? 'B' : 'A'}`;

/** Throws Mismatch if the route refuses the valid credentials of the question. */
async function requireAccepted(target: Target, name: string, question: Question): Promise<void> {
  if (name === 'delete') requireWrite(target);
  const answer = await target.ask(question);
  const statuses = SINGLE_USER_ROUTES.includes(name) ? [200, 404] : [200];
  requireThat(statuses.includes(answer.status), answer, statuses.join(' or '), describeAnswer(answer));
}

function checkEachRoute(
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

function unauthorizedCheck(id: string, what: string, headers: (options: Credentials) => Record<string, string>): Check {
  return {
    id: `authentication/${id}`,
    sentence: `${UNAUTHORIZED} Here: ${what}.`,
    run: async (target) => requireError(await target.ask({ ...ROUTES.list, headers: headers(target.options) }), 401),
  };
}

export const authenticationChecks: readonly Check[] = [
  ...checkEachRoute(
    'authentication/missing',
    `All routes require authentication. ${UNAUTHORIZED}`,
    async (target, _name, question) => requireError(await target.ask({ ...question, headers: {} }), 401),
  ),
  ...checkEachRoute('authentication/wrong-secret', UNAUTHORIZED, async (target, _name, question) => {
    const { appId, appSecret } = target.options;
    requireError(await target.ask({ ...question, headers: headersOf({ appId, appSecret: altered(appSecret) }) }), 401);
  }),
  ...checkEachRoute(
    'authentication/headers',
    'Header service-app-id carrying <APP_ID> and header service-app-secret carrying <APP_SECRET>.',
    (target, name, question) => requireAccepted(target, name, { ...question, headers: headersOf(target.options) }),
  ),
  ...checkEachRoute(
    'authentication/basic',
    'Authorization: Basic <base64(app-id:app-secret)>, equivalent to the headers.',
    (target, name, question) => requireAccepted(target, name, { ...question, headers: basicOf(target.options) }),
  ),
  unauthorizedCheck('unknown-app-id', 'an unknown App ID', ({ appId, appSecret }) =>
    headersOf({ appId: altered(appId), appSecret }),
  ),
  unauthorizedCheck('no-app-id', 'no App ID', ({ appSecret }) => ({ 'service-app-secret': appSecret })),
  unauthorizedCheck('no-app-secret', 'no App Secret', ({ appId }) => ({ 'service-app-id': appId })),
  unauthorizedCheck('empty', 'an empty App ID and App Secret', () => headersOf({ appId: '', appSecret: '' })),
  unauthorizedCheck('basic-wrong-secret', 'a wrong App Secret in HTTP Basic', ({ appId, appSecret }) =>
    basicOf({ appId, appSecret: altered(appSecret) }),
  ),
  unauthorizedCheck('basic-malformed', 'HTTP Basic without a colon', ({ appId }) => ({
    authorization: `Basic ${Buffer.from(appId).toString('base64')}`,
  })),
  {
    id: 'authentication/secret-stays',
    sentence: 'The App Secret must stay private: no answer contains it.',
    async run(target) {
      const { appId, appSecret } = target.options;
      const answers = [
        await target.ask('/server/users?limit=1'),
        await target.ask('/server/users?limit=x'),
        await target.ask(`/server/users/${UNUSED_ID}`),
        await target.ask({ path: '/server/users', headers: headersOf({ appId: altered(appId), appSecret }) }),
      ];
      for (const answer of answers) {
        requireThat(!answer.text.includes(appSecret), answer, 'an answer without the App Secret', 'the App Secret');
      }
    },
  },
  {
    id: 'authentication/https',
    sentence: 'Base64 is not encryption; calls are made over HTTPS.',
    async run({ options }) {
      if (!options.url.startsWith('https:'))
        throw new NotObservable('the URL begins with http:; a proxy may terminate TLS');
    },
  },
];
