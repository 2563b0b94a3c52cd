import { createRequire } from 'node:module';
import type * as GraphQL from 'graphql';
import { describe, expect, test } from 'vitest';
import { LARGEST_ANSWER_BYTES } from '#dist/domain/input-limits.js';
import { costs, type EngineContext } from '#dist/engine/cost.js';
import { createEngine } from '#dist/engine/engine.js';
import { answerFast, isTooLarge, weightOfReading } from '#dist/engine/execution.js';
import { LIMITS } from '#dist/engine/limits.js';
import { badInput } from '#dist/errors.js';

// The same copy of the module that the engine uses. An import would load a second copy.
const { buildSchema, getIntrospectionQuery }: typeof GraphQL = createRequire(import.meta.url)('graphql');

/** A schema that the service knows nothing of. */
function createLibrary() {
  const schema = buildSchema(`
    scalar Slow
    input Chosen { titles: [String!] }
    type Query {
      shelf(name: String!, books: Int): [Book!]!
      secret: String
      find(titles: [String!], chosen: Chosen): Int
      count(chosen: Chosen): Int
      slow: Slow
    }
    type Book { title: String! pages: Int! note: String }
  `);
  const shelf = fieldOf(schema, 'shelf');
  shelf.extensions = costs({ surcharge: 10, rows: { of: ['books'], otherwise: 2, atMost: 1_000 } });
  shelf.resolve = async (_root, { name, books = 2 }: { name: string; books?: number }) => {
    if (name === '') throw badInput('name', name, 'the name of a shelf');
    return Array.from({ length: books }, (_, at) => ({ title: `${name} "${at}"`, pages: at }));
  };
  fieldOf(schema, 'find').extensions = costs({ items: { of: ['titles'], each: 3 } });
  fieldOf(schema, 'count').extensions = costs({ items: { of: ['chosen', 'titles'], each: 3 } });
  fieldOf(schema, 'slow').resolve = () => 'slow';
  return schema;
}

/** A field of a query. */
function fieldOf(schema: GraphQL.GraphQLSchema, name: string) {
  const field = schema.getQueryType()?.getFields()[name];
  if (field === undefined) throw new Error(`The schema has no ${name}.`);
  return field;
}

/** Prepares requests as the service does, with documents that are kept. */
function createRequests(engine: ReturnType<typeof createEngine>) {
  const documents = engine.createDocumentCache();
  const prepare = (query: string, variables: Record<string, unknown> = {}) =>
    engine.prepareRequest(documents.findOrRead(query, 'library'), {
      query,
      variables,
      operationName: undefined,
      isPlain: true,
    });
  return { documents, prepare };
}

const context: EngineContext = {
  project: 'library',
  isLarge: false,
  charge: () => true,
  again: () => context,
  report: () => undefined,
};

describe('a schema of any kind', () => {
  const engine = createEngine(createLibrary(), { limits: { ...LIMITS, cost: 100, characters: 200 } });
  const { documents, prepare } = createRequests(engine);
  const run = (query: string, variables?: Record<string, unknown>) =>
    engine.executeRequest(prepare(query, variables), context);
  const BOOKS = 'query ($n: Int) { shelf(name: "a", books: $n) { title pages } }';

  test('is executed', async () => {
    expect(await run('{ shelf(name: "a") { title } }')).toEqual({
      data: { shelf: [{ title: 'a "0"' }, { title: 'a "1"' }] },
    });
  });

  test('has the cost that its fields declare, by the variables', () => {
    expect(prepare('{ secret }').cost).toBe(1);
    expect(prepare('{ shelf(name: "a") { title } }').cost).toBe(1 + 10 + 2);
    expect(prepare(BOOKS, { n: 40 }).cost).toBe(1 + 10 + 2 * 40);
  });

  test.each<[string, string, Record<string, unknown>?]>([
    ['cost: got 111, expected at most 100.', BOOKS, { n: 50 }],
    ['characters: got 214, expected at most 200.', `{ secret } # ${'x'.repeat(201)}`],
    ['Cannot query field "nothing" on type "Query".', '{ nothing }'],
    ['Variable "$n" got invalid value "x"', BOOKS, { n: 'x' }],
    [
      'chosen.titles[1]: got a text of 4097 characters',
      'query ($c: Chosen) { count(chosen: $c) }',
      { c: { titles: ['a', 'x'.repeat(4_097)] } },
    ],
  ])('is refused: %s', async (message, query, variables = {}) => {
    const { data, errors = [] } = await run(query, variables);
    expect(data).toBeUndefined();
    expect(errors.map((error) => error.message)).toEqual([expect.stringContaining(message)]);
    expect(errors[0]?.extensions['code']).toBe('BAD_USER_INPUT');
  });

  test('an error names the argument, wherever the schema has it', async () => {
    const { errors } = await run('{ shelf(name: "") { title } }');
    expect(errors?.[0]?.extensions).toEqual({ code: 'BAD_USER_INPUT', argument: 'name' });
  });

  test('introspection tells of the shown schema', async () => {
    const shown = buildSchema('type Query { secret: String }');
    const hiding = createEngine(createLibrary(), { shown });
    const ask = (query: string) =>
      hiding.executeRequest(
        hiding.prepareRequest(hiding.readDocument(query), { query, variables: {}, operationName: undefined }),
        context,
      );
    expect(await ask('{ __type(name: "Query") { fields { name } } }')).toEqual({
      data: { __type: { fields: [{ name: 'secret' }] } },
    });
    expect(await ask('{ shelf(name: "a", books: 1) { pages } }')).toEqual({ data: { shelf: [{ pages: 0 }] } });
  });

  test('is compiled when it comes again and again, and answers the same', async () => {
    const bodies: (string | null)[] = [];
    let prepared = prepare(BOOKS, { n: 3 });
    for (let times = 0; times < 6; times += 1) {
      prepared = prepare(BOOKS, { n: 3 });
      bodies.push(await answerFast(prepared, context, documents));
    }
    expect(prepared.operation?.run).not.toBeNull();
    expect(new Set(bodies)).toEqual(new Set([JSON.stringify(await run(BOOKS, { n: 3 }))]));
  });

  const TITLES = ['a', 'b', 'c', 'd'];
  test.each<[string, Record<string, unknown>, number]>([
    ['{ find }', {}, 0],
    ['{ find(titles: null) }', {}, 0],
    ['{ find(titles: []) }', {}, 0],
    ['{ find(titles: "a") }', {}, 1],
    ['{ find(titles: ["a", "b"]) }', {}, 2],
    ['query ($titles: [String!]) { find(titles: $titles) }', {}, 0],
    ['query ($titles: [String!]) { find(titles: $titles) }', { titles: null }, 0],
    ['query ($titles: [String!]) { find(titles: $titles) }', { titles: [] }, 0],
    ['query ($titles: [String!]) { find(titles: $titles) }', { titles: TITLES }, 4],
    ['{ count }', {}, 0],
    ['{ count(chosen: {}) }', {}, 0],
    ['{ count(chosen: { titles: ["a", "b", "c"] }) }', {}, 3],
    ['query ($titles: [String!]) { count(chosen: { titles: $titles }) }', {}, 0],
    ['query ($titles: [String!]) { count(chosen: { titles: $titles }) }', { titles: TITLES }, 4],
    ['query ($chosen: Chosen) { count(chosen: $chosen) }', {}, 0],
    ['query ($chosen: Chosen) { count(chosen: $chosen) }', { chosen: null }, 0],
    ['query ($chosen: Chosen) { count(chosen: $chosen) }', { chosen: { titles: TITLES } }, 4],
  ])('%s with %j costs three for each item', (query, variables, items) => {
    expect(prepare(query, variables).cost).toBe(1 + 3 * items);
  });

  test('an answer that takes long is written in several turns of the event loop', async () => {
    let turn = 0;
    let isOver = false;
    const nextTurn = () => {
      turn += 1;
      if (!isOver) setImmediate(nextTurn);
    };
    setImmediate(nextTurn);
    const schema = createLibrary();
    const turns: number[] = [];
    (schema.getType('Slow') as GraphQL.GraphQLScalarType).serialize = (value) => {
      turns.push(turn);
      // Longer than any slice.
      for (const end = performance.now() + 10; performance.now() < end; );
      return value;
    };
    const slow = createRequests(createEngine(schema, { limits: LIMITS }));
    const query = '{ a: slow b: slow c: slow }';
    for (let times = 0; times < 6; times += 1) {
      const prepared = slow.prepare(query);
      turns.length = 0;
      const isCompiled = prepared.operation?.run != null;
      expect(await answerFast(prepared, context, slow.documents)).toBe('{"data":{"a":"slow","b":"slow","c":"slow"}}');
      // GraphQL.js serializes all of it at once. It is written as JSON in a turn of its own.
      expect(new Set(turns).size).toBe(isCompiled ? 3 : 1);
      if (!isCompiled) expect(turn).toBeGreaterThan(turns[0] as number);
    }
    expect(slow.prepare(query).operation?.run).not.toBeNull();
    isOver = true;
  });

  test('introspection of a schema with hundreds of types is answered, though it costs more than other operations may', async () => {
    const types = Array.from({ length: 300 }, (_, n) => `type T${n} { a: Int b(c: Int): T${(n + 1) % 300} }`);
    const large = createEngine(buildSchema(`type Query { t: T0 } ${types.join(' ')}`));
    const ask = (query: string) => {
      const prepared = large.prepareRequest(large.readDocument(query), {
        query,
        variables: {},
        operationName: undefined,
      });
      return { cost: prepared.cost, answer: large.executeRequest(prepared, context) };
    };
    const { cost, answer } = ask(getIntrospectionQuery());
    expect(cost).toBeGreaterThan(10_000);
    const { data, errors } = await answer;
    expect(errors).toBeUndefined();
    expect(JSON.stringify(data)).toContain('"T299"');
    const twice = await ask(getIntrospectionQuery().replace('{', '{ a: __schema { types { ...FullType } } ')).answer;
    expect([twice.data, twice.errors?.[0]?.message]).toEqual([
      undefined,
      expect.stringMatching(/^cost: got \d+, expected at most \d+\.$/),
    ]);
  });

  test('introspection without variables is executed once', async () => {
    const ask = async (query: string, variables: Record<string, unknown> = {}) => {
      const answers: (string | null)[] = [];
      for (let times = 0; times < 4; times += 1)
        answers.push(await answerFast(prepare(query, variables), context, documents));
      expect(new Set(answers)).toEqual(new Set([JSON.stringify(await run(query, variables))]));
      return documents.find(query);
    };
    const kept = await ask('{ __type(name: "Book") { fields { name } } }');
    expect(kept?.operation(undefined)?.run).not.toBeNull();
    expect(kept?.compiled.answers).toBeGreaterThan(0);
    const varying = await ask('query ($name: String!) { __type(name: $name) { name } }', { name: 'Book' });
    expect([varying?.operation(undefined)?.run, varying?.compiled.answers]).toEqual([null, 0]);
  });
});

test.each([
  [0, 1],
  [499, 1],
  [500, 2],
  [19_999, 40],
  [20_000, 41],
  [1_000_000, 41],
])('a document of %i characters weighs %i units to read, for no more characters than are read', (characters, units) => {
  expect(weightOfReading('x'.repeat(characters))).toBe(units);
});

describe('the largest answer', () => {
  test.each([
    [{}],
    [[]],
    [null],
    [true],
    [1],
    [-1.5],
    [''],
    ['ten bytes'],
    ['é'],
    ['"'],
    [{ id: '1' }],
    [{ id: '1', n: [1, 2] }],
    [[[]]],
    [[{ a: null }, 'b']],
  ])('with many %j has 8 MiB to the byte', (value) => {
    const answer = (rest: number) => ({ data: { list: Array(1_000).fill(value), rest: 'x'.repeat(rest) } });
    const most = LARGEST_ANSWER_BYTES - Buffer.byteLength(JSON.stringify(answer(0)));
    expect([isTooLarge(answer(most)), isTooLarge(answer(most + 1))]).toEqual([false, true]);
  });

  test('is the same for an operation that is compiled', async () => {
    const schema = createLibrary();
    let length = 0;
    fieldOf(schema, 'secret').resolve = () => 'x'.repeat(length);
    const { documents, prepare } = createRequests(createEngine(schema));
    const ask = (more: number) => {
      length = LARGEST_ANSWER_BYTES - '{"data":{"secret":""}}'.length + more;
      const prepared = prepare('{ secret }');
      const isCompiled = prepared.operation?.run != null;
      return answerFast(prepared, context, documents).then((body) => [isCompiled, body?.length ?? null]);
    };
    for (const isCompiled of [false, true]) {
      expect(await ask(1)).toEqual([isCompiled, null]);
      for (let times = 0; times < 6; times += 1) expect((await ask(0))[1]).toBe(LARGEST_ANSWER_BYTES);
    }
  });
});

test('a field whose resolver asks for its own name is answered by GraphQL.js, however often it is asked', async () => {
  const schema = createLibrary();
  const note = (schema.getType('Book') as GraphQL.GraphQLObjectType).getFields()['note'];
  if (note === undefined) throw new Error('A book has no note.');
  note.resolve = (_book, _given, _context, { fieldName }) => fieldName;
  const { documents, prepare } = createRequests(createEngine(schema));
  for (let times = 0; times < 6; times += 1) {
    const body = await answerFast(prepare('{ shelf(name: "a", books: 2) { note } }'), context, documents);
    expect(JSON.parse(body ?? '')).toEqual({ data: { shelf: [{ note: 'note' }, { note: 'note' }] } });
  }
});
