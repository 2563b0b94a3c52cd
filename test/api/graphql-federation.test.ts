import { readFileSync } from 'node:fs';
import { Kind, parse, visit } from 'graphql';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { engine } from '#dist/graphql/engine.js';
import { printedSubgraph } from '#dist/graphql/schema.js';
import { stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { addNamedUsers, idsOf } from '../support/graphql.js';

/** What a gateway of Apollo Federation asks: the schema with its directives, and users by their representations. */

const app = useTestApp({ admission: { maxInFlight: 256, maxInFlightPerProject: 256, maxQueued: 256 } });
let project: TestProject;
let foreign: TestProject;
let ids: Record<string, string>;
let foreignId: string;

const ENTITIES = `query ($representations: [_Any!]!) {
  _entities(representations: $representations) { __typename ... on User { id authValue } }
}`;
const ask = (representations: unknown, by = project) => by.graphql(ENTITIES, { representations } as Json);
const user = (id: unknown) => ({ __typename: 'User', id });
const answerOf = (name: string) => ({ __typename: 'User', id: ids[name], authValue: `${name}@example.com` });

beforeAll(async () => {
  project = await addNamedUsers(app, 'ada', 'bob', 'eve');
  foreign = await addNamedUsers(app, 'ada');
  ids = await idsOf(project);
  foreignId = (await idsOf(foreign))['ada'] as string;
});
beforeEach(() => {
  app.statements.length = 0;
});

/** Three executions make an operation known, so that it is compiled from the fourth on. */
const EXECUTIONS = 5;

test('_service tells the schema of subgraph.graphql', async () => {
  const committed = readFileSync(new URL('../../subgraph.graphql', import.meta.url), 'utf8');
  expect(committed, 'subgraph.graphql is stale: npm run schema').toBe(printedSubgraph());
  for (let execution = 0; execution < EXECUTIONS; execution += 1) {
    const { data } = await project.graphql('{ _service { __typename sdl } }');
    expect(data).toEqual({ _service: { __typename: '_Service', sdl: committed.trimEnd() } });
  }
});

test('subgraph.graphql adds to schema.graphql nothing but the link, the directives, and the definition of one', () => {
  const [schema, subgraph] = ['schema', 'subgraph'].map((name) =>
    readFileSync(new URL(`../../${name}.graphql`, import.meta.url), 'utf8').split('\n'),
  ) as [string[], string[]];
  expect(subgraph.filter((line) => !schema.includes(line))).toEqual([
    'extend schema @link(url: "https://specs.apollo.dev/federation/v2.0", import: ["@key", "@shareable"])',
    'directive @oneOf on INPUT_OBJECT',
    'type PageInfo @shareable {',
    'type User @key(fields: "id") {',
  ]);
  expect(schema.filter((line) => !subgraph.includes(line))).toEqual(['type PageInfo {', 'type User {']);
});

test('every directive in subgraph.graphql is defined there, imported by its link, or known to every composer', () => {
  const used = new Set<string>();
  // Those of the specification that Federation 2 knows, and the one that imports the others.
  const known = new Set(['deprecated', 'include', 'link', 'skip', 'specifiedBy']);
  visit(parse(printedSubgraph()), {
    Directive({ name, arguments: given = [] }) {
      used.add(name.value);
      const imported = given.find((each) => each.name.value === 'import')?.value;
      if (name.value !== 'link' || imported?.kind !== Kind.LIST) return;
      for (const each of imported.values) if (each.kind === Kind.STRING) known.add(each.value.replace('@', ''));
    },
    DirectiveDefinition: ({ name }) => void known.add(name.value),
  });
  expect([...used].sort()).toEqual(['key', 'link', 'oneOf', 'shareable']);
  expect([...used].filter((name) => !known.has(name))).toEqual([]);
});

test('_entities keeps the order and repetitions, with null for each user whom the project does not have', async () => {
  const representations = [
    user(ids['eve']),
    user('999999999'),
    user(Number(ids['ada'])),
    user(foreignId),
    user(ids['eve']),
  ];
  for (let execution = 0; execution < EXECUTIONS; execution += 1) {
    const { data, errors } = await ask(representations);
    expect(errors).toBeUndefined();
    expect(data._entities).toEqual([answerOf('eve'), null, answerOf('ada'), null, answerOf('eve')]);
  }
});

test('a representation may have other fields, which are ignored', async () => {
  const { data } = await ask([{ ...user(ids['ada']), email: 'x', orders: [{ id: 1 }], constructor: 1 }]);
  expect(data._entities).toEqual([answerOf('ada')]);
});

test('representations may be written in the document', async () => {
  const query = `query ($id: ID) { _entities(representations: [{ __typename: "User", id: $id }, { __typename: "User", id: ${ids['bob']} }]) { ... on User { authValue } } }`;
  const { data } = await project.graphql(query, { id: ids['ada'] });
  expect(data._entities).toEqual(['ada', 'bob'].map((name) => ({ authValue: `${name}@example.com` })));
});

test.each<[string, unknown, string]>([
  [
    'a user without an id',
    { __typename: 'User' },
    'representations[1].id: got nothing, expected decimal digits, 1 and up.',
  ],
  ['an id that is no id', user('x'), 'representations[1].id: got "x", expected decimal digits, 1 and up.'],
  ['an id that is a list', user([1]), 'representations[1].id: got [1], expected decimal digits, 1 and up.'],
  ['another type', { __typename: 'Account', id: 1 }, 'representations[1].__typename: got "Account", expected "User".'],
  ['no type', { id: 1 }, 'representations[1].__typename: got nothing, expected "User".'],
  ['a text', 'User', 'representations[1]: got "User", expected an object with __typename and id.'],
  ['a list', [[]], 'representations[1]: got [[]], expected an object with __typename and id.'],
])('%s is refused, and the others are answered', async (_what, representation, message) => {
  for (let execution = 0; execution < EXECUTIONS; execution += 1) {
    const { status, data, errors } = await ask([user(ids['ada']), representation, user(ids['bob'])]);
    expect(status).toBe(200);
    expect(data._entities).toEqual([answerOf('ada'), null, answerOf('bob')]);
    expect(errors).toMatchObject([{ message, path: ['_entities', 1], extensions: { code: 'BAD_USER_INPUT' } }]);
  }
});

test('_entities accepts from 0 to 100 representations and refuses 101', async () => {
  expect((await ask([])).data._entities).toEqual([]);
  expect((await ask(new Array(100).fill(user('999999999')))).data._entities).toEqual(new Array(100).fill(null));
  const { data, errors } = await ask(new Array(101).fill(user('1')));
  expect(data).toBeNull();
  expect(errors?.map(({ message }) => message)).toEqual(['representations: got 101, expected at most 100.']);
});

test('what a gateway sends is compiled', () => {
  for (const query of [ENTITIES, '{ _service { sdl } }']) {
    const [operation] = engine.readDocument(query).operations();
    operation?.compile();
    expect(operation?.run).toEqual(expect.any(Function));
  }
});

test('the users of 100 representations with their accounts take one statement', async () => {
  const owner = await app.createProject();
  await owner.addUsers(
    ...Array.from({ length: 100 }, (_, index) => ({
      auth_method: 'passkey',
      auth_value: `user${index}`,
      accounts: [{ network: 'stellar', public_key: stellarAddress(5_000 + index) }],
    })),
  );
  const { data: listed } = await owner.graphql('{ users(first: 100) { nodes { id } } }');
  const representations = listed.users.nodes.map(({ id }: Json) => user(id));
  const query = `query ($representations: [_Any!]!) {
    _entities(representations: $representations) { ...F } } fragment F on User { accounts { publicKey } }`;
  for (let execution = 0; execution < EXECUTIONS; execution += 1) {
    app.statements.length = 0;
    const { data } = await owner.graphql(query, { representations });
    expect(data._entities.map(({ accounts }: Json) => accounts.length)).toEqual(new Array(100).fill(1));
    expect(app.statements.filter((sql) => /FROM users|JOIN users|accounts/.test(sql))).toHaveLength(1);
  }
});

test('introspection and schema.graphql do not show what only gateways ask', async () => {
  const query =
    '{ __schema { types { name } queryType { fields { name } } } any: __type(name: "_Any") { name } query: __type(name: "Query") { fields { name } } }';
  const { data } = await project.graphql(query);
  expect(data.any).toBeNull();
  expect(data.query).toEqual(data.__schema.queryType);
  const names = [...data.__schema.types, ...data.query.fields].map(({ name }: Json) => name);
  expect(names).toEqual(expect.arrayContaining(['User', 'users']));
  expect(names.filter((name) => /^_[^_]/.test(name))).toEqual([]);
  expect(readFileSync(new URL('../../schema.graphql', import.meta.url), 'utf8')).not.toMatch(/_entities|_service|_Any/);
});
