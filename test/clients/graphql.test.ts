import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { CLIENTS, hasClients } from '../support/clients.js';
import { isNightly } from '../support/nightly.js';

const PACKAGE = join(CLIENTS, 'graphql');
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SCHEMA = join(ROOT, 'schema.graphql');

interface Outcome {
  code: number;
  stdout: string;
  stderr: string;
}

describe.runIf(hasClients)('GraphQL clients (installed by: npm ci --prefix test/clients)', () => {
  const app = useTestApp();
  let compilation: Outcome;
  /** The users of a project. */
  const newestFirst = Array.from({ length: 25 }, (_, index) => `user${24 - index}@example.com`);

  beforeAll(async () => {
    const generation = await run(process.execPath, ['generate.mjs']);
    expect(generation).toEqual({ code: 0, stdout: '', stderr: '' });
    compilation = await run(join(ROOT, 'node_modules/.bin/tsc'), ['-p', '.', '--pretty', 'false']);
  });

  async function createFullProject(): Promise<TestProject> {
    const project = await app.createProject();
    await project.addUsers(
      ...newestFirst.map((auth_value, index) => ({
        auth_method: 'email',
        auth_value,
        created_at: new Date(Date.UTC(2026, 0, 31 - index)).toISOString(),
      })),
    );
    return project;
  }

  /** Runs a compiled client against a project with these users, and returns what the client reports. */
  async function runClient(name: string): Promise<Json> {
    const { appId, appSecret } = await createFullProject();
    const environment = { SERVICE_URL: app.url, APP_ID: appId, APP_SECRET: appSecret };
    const { code, stdout, stderr } = await run(process.execPath, [`dist/${name}.js`], environment);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    return JSON.parse(stdout);
  }

  test('types generated from schema.graphql compile with the clients, and wrong use does not compile', () => {
    const errors = compilation.stdout.split('\n').filter((line) => /^\S/.test(line));
    expect(errors).toEqual([
      expect.stringMatching(/^wrong\.ts\(6,.*Property 'email' does not exist on type/),
      expect.stringMatching(/^wrong\.ts\(7,.*'limit' does not exist in type/),
      expect.stringMatching(/^wrong\.ts\(8,.*'"email"' is not assignable to type 'LoginMethod'/),
      expect.stringMatching(/^wrong\.ts\(9,.*is not assignable to type 'UserSearch'/),
      expect.stringMatching(/^wrong\.ts\(10,.*Property 'authValue' is missing/),
    ]);
  });

  test('graphql-request reads all users, writes, and receives error codes', async () => {
    expect(await runClient('graphql-request')).toEqual({
      walked: newestFirst,
      registered: true,
      loginMethod: 'SOCIALS',
      found: [true],
      verified: { exists: true, network: 'ETHEREUM', userId: expect.stringMatching(/^\d+$/), walletType: 'CUSTODIAL' },
      removed: true,
      gone: null,
      removedAgain: [200, 'NOT_FOUND'],
      tooMany: [200, 'BAD_USER_INPUT'],
      stranger: [401, 'UNAUTHENTICATED'],
    });
  });

  test('graphql-sse follows the feed of changes, resumes after a change, and receives refusals', async () => {
    expect(await runClient('graphql-sse')).toEqual({
      followed: [
        ['USER_CREATED', 'first@example.com'],
        ['USER_CREATED', 'second@example.com'],
      ],
      resumed: 'second@example.com',
      refusals: ['BAD_USER_INPUT', 401],
    });
  });

  test('Apollo Client merges pages in its cache, newer users first, and each user once', async () => {
    expect(await runClient('apollo')).toEqual({
      sizes: [10, 20, 25],
      walked: newestFirst,
      watched: ['newest@example.com', ...newestFirst],
      totalCount: 26,
      loginCount: 1,
      cursors: 26,
    });
  });

  test('the Relay compiler accepts the connection, and its query returns the page that Relay expects', async () => {
    expect(await run('../node_modules/.bin/relay-compiler', ['relay.config.json'])).toMatchObject({ code: 0 });
    const artifact = await readFile(join(PACKAGE, 'relay/__generated__/userListPaginationQuery.graphql.ts'), 'utf8');
    const text = JSON.parse(/"text": (".*")/.exec(artifact)?.[1] ?? '""');
    const project = await createFullProject();
    const { data, errors } = await project.graphql(text, { first: 2 });
    expect(errors).toBeUndefined();
    expect(data.users).toEqual({
      edges: [0, 1].map(() => ({ node: expect.objectContaining({ __typename: 'User' }), cursor: expect.any(String) })),
      pageInfo: { endCursor: data.users.edges[1].cursor, hasNextPage: true },
    });
  });

  test('Apollo Client sends a query once, and from then on its hash, over GET', async () => {
    const newest = newestFirst.slice(0, 2);
    expect(await runClient('persisted')).toEqual({
      users: [newest, newest],
      sent: ['GET hash', 'POST text', 'GET hash'],
    });
  });

  test('graphql-schema-linter finds no problem in the schema', async () => {
    const { code, stdout } = await run('../node_modules/.bin/graphql-schema-linter', [SCHEMA]);
    expect({ code, stdout: stdout.trim() }).toEqual({ code: 0, stdout: '✔ 0 errors detected' });
  });

  test.runIf(isNightly)(
    'graphql-eslint finds no problem in the schema and operations, and finds errors in bad examples',
    async () => {
      const schema = await readFile(SCHEMA, 'utf8');
      expect(await lint('schema.graphql', schema)).toEqual([]);
      expect(await lint('operations.graphql', await readFile(join(PACKAGE, 'operations.graphql'), 'utf8'))).toEqual([]);
      const worse = `${schema}\ntype user_list { Users: [User] }\ntype ThingConnection { edges: User }\n`;
      expect(await lint('schema.graphql', worse)).toEqual(
        expect.arrayContaining([
          '@graphql-eslint/naming-convention',
          '@graphql-eslint/no-unreachable-types',
          '@graphql-eslint/relay-connection-types',
          '@graphql-eslint/require-description',
        ]),
      );
    },
  );
});

/** The rules that a text breaks. ESLint gets it on standard input, because it reads no file above its folder. */
async function lint(name: string, text: string): Promise<string[]> {
  const args = ['--stdin', '--stdin-filename', name, '--format', 'json'];
  const { stdout } = await run('../node_modules/.bin/eslint', args, {}, text);
  const [{ messages }] = JSON.parse(stdout);
  return messages.map(({ ruleId, message }: Json) => ruleId ?? message);
}

/** Runs a program in the package to its end. */
async function run(file: string, args: string[], environment = {}, input = ''): Promise<Outcome> {
  const running = promisify(execFile)(file, args, {
    cwd: PACKAGE,
    env: { PATH: process.env['PATH'] ?? '', ...environment },
    maxBuffer: 2 ** 24,
  });
  running.child.stdin?.end(input);
  return running.then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    ({ code, stdout, stderr }) => ({ code, stdout, stderr }),
  );
}
