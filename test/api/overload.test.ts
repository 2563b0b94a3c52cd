import { beforeAll, expect, test } from 'vitest';
import { type TestProject, useTestApp } from '../support/app.js';

/** More than can be done at once, on a service that can do little: two units under way, eight that wait. */

const app = useTestApp({ admission: { maxInFlight: 2, maxInFlightPerProject: 1, maxQueued: 8 } });
let storm: TestProject;
let calm: TestProject;

beforeAll(async () => {
  [storm, calm] = [await app.createProject(), await app.createProject()];
  for (const project of [storm, calm]) await project.addUsers({ auth_method: 'email', auth_value: 'ada@example.com' });
});

const REFUSAL = 'The service is overloaded: the queue is full.';

test('what cannot even wait is refused at once over REST: 503 with Retry-After', async () => {
  const answers = await Promise.all(Array.from({ length: 60 }, () => storm.rest('/server/users/count')));
  const refused = answers.filter(({ status }) => status === 503);
  expect(refused.length).toBeGreaterThan(0);
  expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(5);
  for (const { status, headers, body } of answers) {
    if (status === 503) expect([headers.get('retry-after'), body]).toEqual(['1', { error: REFUSAL }]);
    else expect([status, body.result]).toEqual([200, { total_user: 1 }]);
  }
});

test('and over GraphQL: UNAVAILABLE', async () => {
  const answers = await Promise.all(Array.from({ length: 60 }, () => storm.graphql('{ userCount }')));
  const refused = answers.filter(({ status }) => status !== 200);
  expect(refused.length).toBeGreaterThan(0);
  for (const { status, headers, errors } of refused) {
    expect([status, headers.get('retry-after')]).toEqual([503, '1']);
    expect(errors).toEqual([{ message: REFUSAL, extensions: { code: 'UNAVAILABLE' } }]);
  }
});

test('a project that asks for little is served while another storms', async () => {
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

test('and afterwards everything is as before', async () => {
  expect((await storm.rest('/server/users?limit=100')).body.result.total_user).toBe(1);
});
