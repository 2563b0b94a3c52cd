import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { stellarAddress } from '../support/addresses.js';
import { type TestProject, useTestApp } from '../support/app.js';
import { parseAnswer, sendPieces } from '../support/rest.js';

/** Bodies that arrive with their headers, after them and in pieces, and several requests that arrive at once. */

const app = useTestApp();
const ADDRESS = stellarAddress(1);
let project: TestProject;
let id: string;

beforeAll(async () => {
  project = await app.createProject();
  await project.addUsers({
    auth_method: 'passkey',
    auth_value: 'a',
    accounts: [{ network: 'stellar', public_key: ADDRESS }],
  });
  id = (await project.graphql('{ users { nodes { id } } }')).data.users.nodes[0].id;
});

interface Sent {
  owner?: TestProject;
  path: string;
  body: string;
  isChunked?: boolean;
  secret?: string;
  isLast?: boolean;
}

function post({ owner = project, path, body, isChunked = false, secret, isLast = true }: Sent): Buffer {
  const bytes = Buffer.from(body);
  const headers = {
    host: 'userdir',
    connection: isLast ? 'close' : 'keep-alive',
    ...owner.credentials,
    ...(secret !== undefined && { 'service-app-secret': secret }),
    'content-type': 'application/json',
    ...(isChunked ? { 'transfer-encoding': 'chunked' } : { 'content-length': bytes.length }),
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const parts = isChunked ? [`${bytes.length.toString(16)}\r\n`, bytes, '\r\n0\r\n\r\n'] : [bytes];
  return Buffer.concat([`POST ${path} HTTP/1.1\r\n`, ...lines, '\r\n', ...parts].map((part) => Buffer.from(part)));
}

const statusesOf = (answers: string) => [...answers.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status));
const verify = (rest: Partial<Sent> = {}) =>
  post({ path: '/server/wallets/verify', body: JSON.stringify({ address: ADDRESS }), ...rest });

/** Each with text of more than one byte a character, which a piece may end in. */
const REQUESTS: { name: string; sent: Sent; answer: () => unknown }[] = [
  {
    name: 'REST',
    sent: { path: '/server/wallets/verify', body: `${' '.repeat(40)}{"address": "${ADDRESS}"}` },
    answer: () => expect.objectContaining({ result: expect.objectContaining({ exists: true, user_id: Number(id) }) }),
  },
  {
    name: 'REST, refused',
    sent: { path: '/server/wallets/verify', body: '{"address": "žluťoučký"}' },
    answer: () => ({ error: expect.stringContaining('žluťoučký') }),
  },
  {
    name: 'GraphQL',
    sent: { path: '/graphql', body: JSON.stringify({ query: '# žluťoučký\n{ users { nodes { id } } }' }) },
    answer: () => ({ data: { users: { nodes: [{ id }] } } }),
  },
];

const DONE = REQUESTS.filter(({ name }) => name !== 'REST, refused');

test.each(DONE)('a secret that ends while a body arrives is refused: $name', async ({ sent }) => {
  const { projects, secrets } = app.context.services;
  const status = async (isEnded: boolean) => {
    const owner = await app.createProject();
    const bytes = post({ ...sent, owner });
    let isFirst = true;
    const between = async () => {
      if (!isFirst) return;
      isFirst = false;
      if (isEnded) await secrets.rotateSecret(await projects.getScope(owner.appId), { overlapMs: 0 });
      // From a second on it is looked up again.
      await sleep(1_050);
    };
    return statusesOf(await sendPieces(app.url, [bytes.subarray(0, -10), bytes.subarray(-10)], between))[0];
  };
  const [ended, live] = await Promise.all([status(true), status(false)]);
  expect([ended, live]).toEqual([401, 200]);
});

test.each(REQUESTS)('a body is read the same in any pieces: $name', async ({ sent, answer }) => {
  const cuts = fc.array(fc.nat(600), { maxLength: 4 });
  await fc.assert(
    fc.asyncProperty(cuts, fc.boolean(), async (places, isChunked) => {
      const bytes = post({ ...sent, isChunked });
      const ends = [...new Set(places.map((place) => place % bytes.length)), bytes.length].sort((a, b) => a - b);
      const pieces = ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
      expect(parseAnswer(await sendPieces(app.url, pieces)).body).toEqual(answer());
    }),
    { numRuns: 40 },
  );
});

test('a body is read when its headers came long before it', async () => {
  const bytes = verify();
  const headEnd = bytes.indexOf('\r\n\r\n') + 4;
  // The server has read the headers by the time it answers a later request.
  const answer = await sendPieces(app.url, [bytes.subarray(0, headEnd), bytes.subarray(headEnd)], () =>
    sendPieces(app.url, [verify()]),
  );
  expect(parseAnswer(answer).body).toMatchObject({ result: { exists: true } });
});

test('requests that arrive at once are each authenticated by their own secret', async () => {
  const right = verify({ isLast: false });
  const wrong = verify({ isLast: false, secret: `${project.credentials['service-app-secret']}x` });
  const last = verify();
  expect(statusesOf(await sendPieces(app.url, [Buffer.concat([right, wrong, right, wrong, last])]))).toEqual([
    200, 401, 200, 401, 200,
  ]);
});
