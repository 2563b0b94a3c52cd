import { createRequire, Module } from 'node:module';
import { compile } from '../../dist/engine/compiled.js';
import { prepareRequest } from '../../dist/engine/execution.js';
import { engine, schema } from '../../dist/graphql/schema.js';

/*
 * `node test/bench/compiled.mjs`, after `npm run build` and `npm ci --prefix test/bench`: compares our compiled
 * operations with graphql-jit (a dependency of Mercurius) and GraphQL.js, without HTTP and without a database. Prints
 * for each operation the median time of an execution including the bytes of its JSON, and the time to compile it once.
 */

const require = createRequire(import.meta.url);
// All three must share one copy of GraphQL.js, because it rejects the schema of another copy.
const copy = createRequire(new URL('../../dist/cli.js', import.meta.url)).resolve('graphql');
const resolve = Module._resolveFilename;
Module._resolveFilename = (name, ...rest) => (name === 'graphql' ? copy : resolve(name, ...rest));
const { compileQuery, isCompiledQuery } = require('graphql-jit');
const { execute, parse } = require('graphql');

const account = (id) => ({ id, network: 'stellar', publicKey: `GA${'B'.repeat(54)}`, walletType: 'custodial' });
const user = (id) => ({
  id,
  authMethod: 'email',
  authValue: `ada.${id}@example.com`,
  loginMethod: 'email',
  wallet: null,
  createdAt: '2026-01-31T12:00:00.000Z',
  lastLogin: '2026-02-01T12:00:00.000Z',
  loginCount: 3,
  accounts: [account(2 * id), account(2 * id + 1)],
});
const everyone = Array.from({ length: 100 }, (_, index) => user(index + 1));
const services = {
  users: {
    findUser: async () => everyone[0],
    listWindow: async (_scope, _filter, { limit, withTotal }) => ({
      users: everyone.slice(0, limit),
      hasOlder: true,
      hasNewer: false,
      total: withTotal ? 1_000 : null,
    }),
  },
};
const context = () => ({ scope: {}, services, requestId: 'a', isLarge: false, charge: () => true, report: () => {} });

const ALL =
  'id authMethod loginMethod authValue wallet createdAt lastLogin loginCount accounts { id network publicKey walletType }';
const page = `query ($n: Int) { users(first: $n) { totalCount pageInfo { hasNextPage endCursor } nodes { ${ALL} } } }`;
const wide = Array.from({ length: 100 }, (_, index) => `p${index}: users(first: 1) { nodes { ${ALL} } }`);
const OPERATIONS = {
  'one user, 2 fields': ['query ($id: ID!) { user(id: $id) { id authValue } }', { id: '42' }],
  'one user, all fields': [`query ($id: ID!) { user(id: $id) { ${ALL} } }`, { id: '42' }],
  'page of 10': [page, { n: 10 }],
  'page of 100': [page, { n: 100 }],
  '100 root fields': [`{ ${wide.join(' ')} }`, {}],
};

const ROUNDS = 9;
const ROUND_MS = 150;

/** Microseconds per call, measured for about ROUND_MS. */
async function time(call) {
  const start = performance.now();
  let calls = 0;
  while (performance.now() - start < ROUND_MS) {
    await call();
    calls += 1;
  }
  return ((performance.now() - start) * 1_000) / calls;
}

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

/** The median time of each implementation, measured in turns. */
async function compare(ways) {
  const times = Object.fromEntries(Object.keys(ways).map((name) => [name, []]));
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [name, call] of Object.entries(ways)) times[name].push(await time(call));
  }
  return Object.fromEntries(
    Object.entries(times).map(([name, values]) => [name, Math.round(median(values) * 10) / 10]),
  );
}

// As the socket needs it: a text that was put together from pieces is copied into one only then.
const toBytes = (text) => Buffer.from(text);

const rows = [];
for (const [name, [query, variables]] of Object.entries(OPERATIONS)) {
  // Our parser removes the tokens, and graphql-jit needs them.
  const whole = parse(query);
  const { tree } = engine.readDocument(query);
  const { operation, coerced } = prepareRequest(engine.readDocument(query), { query, variables });
  const compileOurs = () => compile(schema, tree, operation.node, { fields: 0, most: 100_000 });
  const compileJit = () => compileQuery(schema, whole);
  const [ours, jit] = [compileOurs(), compileJit()];
  if (ours === null || !isCompiledQuery(jit)) throw new Error(`${name} is not compiled.`);
  const ways = {
    ours: async () => toBytes((await ours(coerced, context())).body),
    jit: async () => toBytes(JSON.stringify(await jit.query(undefined, context(), variables))),
    graphql: async () =>
      toBytes(
        JSON.stringify(await execute({ schema, document: tree, contextValue: context(), variableValues: variables })),
      ),
  };
  const [expected, ...others] = await Promise.all(Object.values(ways).map((run) => run()));
  if (others.some((body) => !body.equals(expected))) throw new Error(`${name} has different answers.`);
  const executed = await compare(ways);
  const compiled = await compare({ ours: compileOurs, jit: compileJit });
  rows.push({
    operation: name,
    'ours µs': executed.ours,
    'graphql-jit µs': executed.jit,
    'GraphQL.js µs': executed.graphql,
    'ours / graphql-jit': Math.round((executed.ours / executed.jit) * 100) / 100,
    'compiling, ours ms': Math.round(compiled.ours / 10) / 100,
    'compiling, graphql-jit ms': Math.round(compiled.jit / 10) / 100,
  });
}
process.stdout.write(`${JSON.stringify(rows, null, 1)}\n`);
