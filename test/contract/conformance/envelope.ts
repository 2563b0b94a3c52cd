import { type Answer, describeAnswer, requireError, requireStatus, requireThat } from './answers.js';
import { ROUTES, SINGLE_USER_ROUTES, search, UNUSED, UNUSED_ID, verify } from './questions.js';
import { SUCCESS } from './shapes.js';
import { type Check, NotObservable } from './target.js';

/** The form of every answer: "Request and response conventions". */

const isSuccess = (answer: Answer) => SUCCESS.safeParse(answer.body).success;

export const envelopeChecks: readonly Check[] = [
  ...Object.entries(ROUTES)
    .filter(([name]) => !SINGLE_USER_ROUTES.includes(name))
    .map(
      ([name, question]): Check => ({
        id: `envelope/success/${name}`,
        sentence: 'Success with data: object with message (string) and result (object). Success status is 200.',
        async run(target) {
          const answer = await target.ask(question);
          const isRight = answer.status === 200 && isSuccess(answer);
          requireThat(isRight, answer, '200 with message (string) and result (object)', describeAnswer(answer));
        },
      }),
    ),
  {
    id: 'envelope/success/get',
    sentence: 'Success with data: object with message (string) and result (object). Success status is 200.',
    async run(target) {
      const [user] = (await target.sample()).users;
      if (user === undefined) throw new NotObservable('there are no users');
      const answer = await target.ask(`/server/users/${user.id}`);
      if (answer.status === 404) throw new NotObservable('the user has gone meanwhile');
      const isRight = answer.status === 200 && isSuccess(answer);
      requireThat(isRight, answer, '200 with message (string) and result (object)', describeAnswer(answer));
    },
  },
  {
    id: 'envelope/error',
    sentence: 'Error: object with error (string).',
    async run(target) {
      requireError(await target.ask('/server/users?limit=x'), 400);
      requireError(await target.ask({ path: '/server/users', headers: {} }), 401);
      const unknown = await target.ask(`/server/users/${UNUSED_ID}`);
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
        requireThat(
          isJson,
          answer,
          'application/json',
          `${answer.contentType || 'no content-type'}: ${describeAnswer(answer)}`,
        );
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
        await search(target, 'email', UNUSED.email),
        await search(target, 'address', UNUSED.ethereum),
        await verify(target, { address: UNUSED.ethereum, user_id: UNUSED_ID }),
      ];
      for (const answer of answers) requireStatus(answer, 200);
    },
  },
];
