import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createClient } from 'userdir/client';
import { beforeAll, describe, expect, test } from 'vitest';
import { createProgram, leafCommands } from '#dist/cli/program.js';
import { OPERATIONS } from '#dist/client/generated/schema.js';
import { documentOf } from '#dist/client/transport.js';
import { SETTINGS } from '#dist/config/settings.js';
import { ERROR_CODES } from '#dist/errors.js';
import { type Json, useTestApp } from '../support/app.js';
import { ROOT } from '../support/checkout.js';
import { breaksOfDocuments, breaksOfGraphql, breaksOfNames, breaksOfOpenApi } from '../support/compatibility.js';

/**
 * Compares what this version offers with what the last release did (docs/compatibility.md). `npm run released` replaces the files of the last
 * release by those of this version.
 */

const FOLDER = join(import.meta.dirname, 'last-release');
/** The breaks that the next version may have, as they are named. A release begins with none. */
const ACCEPTED = 'accepted-breaks.json';
const readReleased = (name: string) => readFileSync(join(FOLDER, name), 'utf8');

const app = useTestApp();
let current: Record<'schema.graphql' | 'subgraph.graphql' | 'openapi.json' | 'names.json' | 'client.json', string>;
let document: Json;

beforeAll(async () => {
  document = await (await fetch(`${app.url}/openapi.json`)).json();
  const printed = (name: string) => readFileSync(join(ROOT, name), 'utf8');
  const json = (value: unknown) => `${JSON.stringify(value, null, 1)}\n`;
  current = {
    'schema.graphql': printed('schema.graphql'),
    'subgraph.graphql': printed('subgraph.graphql'),
    'openapi.json': json(document),
    'client.json': json(documentsOfClient()),
    'names.json': json(namesOf(readFileSync(join(ROOT, 'docs/grafana.json'), 'utf8'))),
  };
  if (process.env['RELEASED'] !== 'yes') return;
  mkdirSync(FOLDER, { recursive: true });
  for (const [name, text] of Object.entries({ ...current, [ACCEPTED]: json([]) }))
    writeFileSync(join(FOLDER, name), text);
});

/** The dashboard shows every metric of ours, as test/api/metrics.test.ts makes sure of. */
function namesOf(dashboard: string): Record<string, string[]> {
  const commands = leafCommands(createProgram({})).flatMap((command) => {
    const name = [command.parent?.parent && command.parent.name(), command.name()].filter(Boolean).join(' ');
    return [name, ...command.options.map(({ long }) => `${name} ${long}`)];
  });
  const metrics = [...new Set(dashboard.match(/\buserdir_\w+/g))].map((name) =>
    name.replace(/_(bucket|sum|count)$/, ''),
  );
  const sorted = (names: readonly string[]) => [...new Set(names)].sort();
  return {
    commands: sorted(commands),
    settings: sorted(SETTINGS),
    errorCodes: sorted(ERROR_CODES),
    metrics: sorted(metrics),
    client: sorted(functionsOfClient()),
  };
}

/** What the client asks, by name: a released one goes on asking it. */
function documentsOfClient(): Record<string, string> {
  const names = Object.keys(OPERATIONS) as (keyof typeof OPERATIONS)[];
  return Object.fromEntries(names.map((name) => [name, documentOf(name, OPERATIONS[name].given as never)]));
}

/** Its functions, as `users.get`. */
function functionsOfClient(): string[] {
  const client = createClient({ url: 'http://localhost', appId: 'app', appSecret: 'secret' });
  return Object.entries(client).flatMap(([name, part]) =>
    typeof part === 'function' ? [name] : Object.keys(part).map((member) => `${name}.${member}`),
  );
}

/** The schema of `limit` of the list. */
const limitIn = (paths: Json): Json =>
  paths['/server/users'].get.parameters.find(({ name }: Json) => name === 'limit').schema;

test('what the last release offered still works, save what the next version may break', () => {
  const breaks = [
    ...breaksOfGraphql(readReleased('schema.graphql'), current['schema.graphql']),
    ...breaksOfGraphql(readReleased('subgraph.graphql'), current['subgraph.graphql']),
    ...breaksOfDocuments(JSON.parse(readReleased('client.json')), current['schema.graphql']),
    ...breaksOfOpenApi(JSON.parse(readReleased('openapi.json')), document),
    ...breaksOfNames(JSON.parse(readReleased('names.json')), JSON.parse(current['names.json'])),
  ];
  expect([...new Set(breaks)].sort()).toEqual(JSON.parse(readReleased(ACCEPTED)).sort());
});

test('objects of answers are open for what a later release adds, and those of requests are closed', () => {
  const objects: { path: string; closed: boolean }[] = [];
  const walk = (value: Json, path: string): void => {
    if (value === null || typeof value !== 'object') return;
    if (value.type === 'object' && value.properties)
      objects.push({ path, closed: value.additionalProperties === false });
    for (const [key, each] of Object.entries(value)) if (key !== 'example') walk(each, `${path}/${key}`);
  };
  walk({ paths: document.paths, components: document.components }, '');
  expect(objects.length).toBeGreaterThan(15);
  expect(objects.filter(({ path, closed }) => closed !== path.includes('/requestBody/'))).toEqual([]);
});

describe('the comparison names', () => {
  const SDL = `
    type Query { user(id: ID!): User  users(first: Int = 10): [User!]! }
    type User @key(fields: "id") { id: ID!  email: String! }
    enum Kind { A B }
    directive @key(fields: String!) on OBJECT
  `;
  test.each([
    ['a removed field', 'email: String!', '', 'User.email was removed.'],
    ['a field that may be null', 'email: String!', 'email: String', 'User.email changed type from String! to String.'],
    [
      'a new required argument',
      'user(id: ID!)',
      'user(id: ID!, at: Int!)',
      'A required arg at on Query.user was added.',
    ],
    ['another default', '= 10', '= 20', 'Query.users arg first has changed defaultValue from 10 to 20.'],
    ['a removed value', 'A B', 'A', 'B was removed from enum type Kind.'],
    ['a removed key', 'User @key(fields: "id")', 'User', 'User @key(fields: "id") was removed.'],
  ])('%s of GraphQL', (_name, from, to, sentence) => {
    const after = SDL.replace(from, to);
    expect(after).not.toBe(SDL);
    expect(breaksOfGraphql(SDL, after)).toEqual([sentence]);
  });

  test('a document of a released client that is not valid any more', () => {
    const documents = { user: '{user(id:1){email}}', lost: '{user(id:1){name}}' };
    expect(breaksOfDocuments(documents, SDL)).toEqual(['client, lost: Cannot query field "name" on type "User".']);
  });

  test.each<[string, (document: Json) => void, string]>([
    ['a removed route', ({ paths }) => delete paths['/changes'], 'GET /changes was removed.'],
    [
      'a removed property',
      ({ components }) => delete components.schemas.Account.properties.network,
      'GET /server/users, 200, result, users[], accounts[]: the property network was removed.',
    ],
    [
      'a property that may be null',
      ({ components }) => Object.assign(components.schemas.User.properties.auth_value, { type: ['string', 'null'] }),
      'GET /server/users, 200, result, users[], auth_value: the type string became string,null.',
    ],
    [
      'a removed status',
      ({ paths }) => delete paths['/changes'].get.responses['410'],
      'GET /changes: the answer 410 was removed.',
    ],
    [
      'a new required parameter',
      ({ paths }) => paths['/changes'].get.parameters.push({ in: 'query', name: 'from', required: true, schema: {} }),
      'GET /changes: the parameter from became required.',
    ],
    [
      'a smaller limit',
      ({ paths }) => Object.assign(limitIn(paths), { maximum: 50 }),
      'GET /server/users, parameter limit: maximum became 50.',
    ],
    [
      'a value that is no longer taken',
      ({ paths }) => Object.assign(requestOf(paths).properties.address, { enum: ['G'] }),
      'POST /server/wallets/verify, body, address: takes only certain values.',
    ],
  ])('%s of REST', (_name, change, sentence) => {
    const after = structuredClone(document);
    change(after);
    expect(breaksOfOpenApi(document, after)).toContain(sentence);
    expect(breaksOfOpenApi(document, document)).toEqual([]);
  });

  test('neither what is new nor what is taken more widely', () => {
    expect(breaksOfGraphql(SDL, SDL.replace('id: ID!  email', 'id: ID!  name(of: Int): String  email'))).toEqual([]);
    const after = structuredClone(document);
    Object.assign(after.components.schemas.User.properties, { nickname: { type: 'string' } });
    after.components.schemas.User.required.push('nickname');
    after.components.schemas.Account.properties.network.enum.push('solana');
    after.paths['/changes'].get.parameters.push({ in: 'query', name: 'from', required: false, schema: {} });
    Object.assign(requestOf(after.paths).properties, { nickname: { type: 'string' } });
    Object.assign(limitIn(after.paths), { maximum: 200 });
    after.paths['/new'] = { get: {} };
    expect(breaksOfOpenApi(document, after)).toEqual([]);
  });

  test('removed commands, options, settings, codes and metrics', () => {
    const before = { commands: ['user get', 'user get --json'], settings: ['PORT'] };
    expect(breaksOfNames(before, { commands: ['user get', 'user list'], settings: [] })).toEqual([
      'commands: user get --json was removed.',
      'settings: PORT was removed.',
    ]);
  });

  const requestOf = (paths: Json) =>
    paths['/server/wallets/verify'].post.requestBody.content['application/json'].schema;
});
