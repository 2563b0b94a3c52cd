import { beforeAll, expect, test } from 'vitest';
import { type TestProject, useTestApp } from '../support/app.js';
import { explained } from '../support/graphql.js';

/** More requests than a small service can accept: two units of weight in flight, eight in the queue. */

const app = useTestApp({ admission: { maxInFlight: 2, maxInFlightPerProject: 1, maxQueued: 8 } });
let storm: TestProject;
let calm: TestProject;

beforeAll(async () => {
  [storm, calm] = [await app.createProject(), await app.createProject()];
  for (const project of [storm, calm]) await project.addUsers({ auth_method: 'email', auth_value: 'ada@example.com' });
});

const REFUSAL = 'The service is overloaded: the queue is full.';

/** Sends more at once until something is refused: on a busy machine, the server may keep up with what the test sends. */
async function overload<Answer extends { status: number }>(send: () => Promise<Answer>): Promise<Answer[]> {
  for (let requests = 60; ; requests = Math.min(2 * requests, 1_000)) {
    const answers = await Promise.all(Array.from({ length: requests }, send));
    if (answers.some(({ status }) => status !== 200)) return answers;
  }
}

test('when the queue is full, a REST request is refused at once: 503 with Retry-After', async () => {
  const answers = await overload(() => storm.rest('/server/users/count'));
  expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(5);
  for (const { status, headers, body } of answers) {
    if (status === 503) expect([headers.get('retry-after'), body]).toEqual(['1', { error: REFUSAL }]);
    else expect([status, body.result]).toEqual([200, { total_user: 1 }]);
  }
});

test('when the queue is full, a GraphQL operation is refused at once: UNAVAILABLE', async () => {
  const answers = await overload(() => storm.graphql('{ userCount }'));
  const refused = answers.filter(({ status }) => status !== 200);
  for (const { status, headers, errors } of refused) {
    expect([status, headers.get('retry-after')]).toEqual([503, '1']);
    expect(errors).toEqual([{ message: REFUSAL, extensions: { ...explained('UNAVAILABLE'), retryAfter: 1 } }]);
  }
});

test('a project with few requests is served while another sends too many', async () => {
  let isOver = false;
  const storming = Array.from({ length: 30 }, async () => {
    while (!isOver) await storm.rest('/server/users?limit=100');
  });
  const statuses: number[] = [];
  for (let n = 0; n < 30; n += 1) statuses.push((await calm.rest('/server/users/count')).status);
  isOver = true;
  await Promise.all(storming);
  expect(statuses).toEqual(new Array(30).fill(200));
});

test('an overloaded project is served again when its storm of requests is over', async () => {
  expect((await storm.rest('/server/users?limit=100')).body.result.total_user).toBe(1);
});
