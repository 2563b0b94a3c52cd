import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { load } from './load.mjs';
import { SERVERS, startServer } from './processes.mjs';
import { SCENARIOS } from './questions.mjs';
import { prepareScenario, SCENARIO_OPTIONS } from './scenario.mjs';
import { WRITES } from './writes.mjs';

/**
 * Where the time of a request goes, in ours and in a peer: a CPU profile (`--cpu-prof`) of each under the same load, grouped. Prints
 * one table for each scenario and number of connections, in microseconds of a request.
 *
 *   node test/bench/profile.mjs --scenario 'REST verify' --servers ours,a --connections 1 [--builds OTHER/dist] [--rounds 3]
 *
 * It takes the databases that `npm run bench -- --reuse` keeps, or makes and keeps them.
 */

const { values: given } = parseArgs({
  options: {
    ...SCENARIO_OPTIONS,
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '2' },
    /** Also the functions with the most time of their own, so many. */
    top: { type: 'string', default: '0' },
  },
});

const SAMPLE_US = 100;
/** Files of ours below this share of the time of a request are one row. */
const SMALL_SHARE = 0.01;

/** The packages of a group. What is in none of them is a group of its own. */
const PACKAGES = {
  'Fastify, its router and its serializers': [
    'fastify',
    'find-my-way',
    'fast-json-stringify',
    'light-my-request',
    'avvio',
    'secure-json-parse',
    '@fastify',
    'ajv',
    'fast-content-type-parse',
    'safe-stable-stringify',
    'rfdc',
    'reusify',
    'fastq',
  ],
  'pg: protocol, pool, types': ['pg', 'pg-protocol', 'pg-pool', 'pg-types', 'postgres-array', 'postgres-bytea'],
  GraphQL: [
    'graphql',
    'graphql-jit',
    'mercurius',
    'graphql-yoga',
    '@pothos',
    '@graphql-tools',
    '@envelop',
    'tiny-lru',
    'single-user-cache',
    'mqemitter',
  ],
  Zod: ['zod', 'fastify-type-provider-zod'],
  DataLoader: ['dataloader'],
};
const GROUP_OF_PACKAGE = new Map(
  Object.entries(PACKAGES).flatMap(([group, names]) => names.map((name) => [name, group])),
);

/** Modules of Node, by the beginning of their name; the first that fits. */
const NODE_MODULES = [
  ['Node: HTTP', /^node:(internal\/)?_?http|^node:internal\/(http|freelist)|^node:_http/],
  [
    'Node: sockets and streams',
    /^node:(internal\/)?(net|stream|streams|js_stream|_stream|internal\/stream)|^node:internal\/(stream|net|streams|dgram)|^node:(net|stream|events|_stream)/,
  ],
  [
    'Node: timers, ticks, promises',
    /^node:internal\/(timers|process|async_hooks|async_context|promise)|^node:(timers|async_hooks)|^node:internal\/util\/(linkedlist|priority)/,
  ],
];

/** Native functions, by what they do: a profile does not say to whom they belong. */
const NATIVES = [
  [
    'writes to sockets (system calls)',
    /^(writev|writeUtf8String|writeLatin1String|writeBuffer|writeAsciiString|writeUcs2String|shutdown)$/,
  ],
  [
    'text from and to bytes',
    /^(utf8Slice|latin1Slice|utf8Write|utf8WriteStatic|latin1Write|latin1WriteStatic|asciiSlice|byteLengthUtf8|decodeUTF8|encodeInto|copy|copyArrayBuffer|slice|utf8ToString|base64Slice|base64urlSlice|base64urlWrite|base64Write)$/,
  ],
  ['hash of the secret', /^(oneShotDigest|hash|digest|update)$/],
];

const PROGRAM = 'native code: event loop, reads, HTTP parser';
const GROUP_OF_ENGINE = {
  '(program)': PROGRAM,
  '(garbage collector)': 'garbage collection',
  '(idle)': null,
  '(root)': null,
};

/** The group of a frame; undefined for a function of the language, which belongs to its caller. */
function groupOf({ functionName, url }) {
  if (Object.hasOwn(GROUP_OF_ENGINE, functionName)) return GROUP_OF_ENGINE[functionName];
  if (url === '') return NATIVES.find(([, names]) => names.test(functionName))?.[0];
  if (url.startsWith('node:')) return NODE_MODULES.find(([, names]) => names.test(url))?.[0] ?? 'Node: other';
  const packaged = /.*\/node_modules\/(@[^/]+|[^/]+)\//.exec(url)?.[1];
  if (packaged !== undefined) return GROUP_OF_PACKAGE.get(packaged) ?? `package ${packaged}`;
  const ours = /\/dist\/(.+)\.js$/.exec(url)?.[1];
  if (ours !== undefined) return `ours: ${ours}.ts`;
  if (/\/peers\/[^/]+$/.test(url)) return 'the code of the peer';
  // Compiled at run time: validators, serializers, queries.
  return url.startsWith('file:') || url.startsWith('/') ? `file ${url}` : undefined;
}

/** Microseconds of each group and of each function between two instants of the monotonic clock, in microseconds. */
function group({ nodes, samples, timeDeltas, startTime }, from, to) {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  for (const node of nodes) for (const child of node.children ?? []) byId.get(child).parent = node;
  const groupOfNode = new Map();
  const find = (node) => {
    if (groupOfNode.has(node)) return groupOfNode.get(node);
    const own = groupOf(node.callFrame);
    const found = own === undefined && node.parent !== undefined ? find(node.parent) : own;
    groupOfNode.set(node, found);
    return found;
  };
  const groups = new Map();
  const functions = new Map();
  let at = startTime;
  for (let place = 0; place < samples.length; place += 1) {
    const us = timeDeltas[place];
    at += us;
    // A sample stands for the time until the next one.
    const length = timeDeltas[place + 1] ?? 0;
    if (at < from || at > to) continue;
    const node = byId.get(samples[place]);
    const name = find(node);
    if (name === null) continue;
    groups.set(name ?? PROGRAM, (groups.get(name ?? PROGRAM) ?? 0) + length);
    const { functionName, url, lineNumber } = node.callFrame;
    const where =
      url === ''
        ? `native, called by ${node.parent?.callFrame.functionName}, in ${name}`
        : `${url.replace(/^.*\/(node_modules|dist)\//, '')}:${lineNumber + 1}`;
    const key = `${functionName || '(anonymous)'} ${where}`;
    functions.set(key, (functions.get(key) ?? 0) + length);
  }
  return { groups, functions };
}

const monotonicUs = () => Number(process.hrtime.bigint() / 1_000n);

/** A process that a signal ends writes no profile. */
const END_POLITELY = 'data:text/javascript,process.once("SIGTERM",()=>process.exit())';

/** Loads a server once, and returns what each group takes of a request. */
async function profile(name, connections) {
  const directory = await mkdtemp(join(tmpdir(), 'userdir-profile-'));
  try {
    const flags = ['--cpu-prof', `--cpu-prof-interval=${SAMPLE_US}`, `--cpu-prof-dir=${directory}`];
    if (SERVERS[name].peer !== undefined) flags.push('--import', END_POLITELY);
    const server = await startServer(name, data, 10, {}, flags);
    await load('wrk', { ...(await targetOf(server, name)), connections: 16, seconds: 2 });
    await load('wrk', { ...(await targetOf(server, name)), connections, seconds: 1 });
    const target = await targetOf(server, name);
    const from = monotonicUs();
    const { responses, failures } = await load('wrk', { ...target, connections, seconds: Number(given.seconds) });
    if (failures > 0) throw new Error(`${name}: ${failures} of ${responses} answers are failures.`);
    const to = monotonicUs();
    await server.stop();
    const [file] = await readdir(directory);
    const { groups, functions } = group(JSON.parse(await readFile(join(directory, file), 'utf8')), from, to);
    const each = (us) => new Map([...us].map(([key, total]) => [key, total / responses]));
    return { groups: each(groups), functions: each(functions) };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** The round with the lowest total: what the other work on the machine adds is never negative. */
function leanest(rounds) {
  const total = ({ groups }) => [...groups.values()].reduce((sum, us) => sum + us, 0);
  return rounds.toSorted((a, b) => total(a) - total(b))[0];
}

function printTable(title, names, found) {
  const groups = found.map(({ groups }) => new Map(groups));
  for (const each of groups) {
    const total = [...each.values()].reduce((sum, us) => sum + us, 0);
    for (const [name, us] of [...each]) {
      if (us >= total * SMALL_SHARE) continue;
      const rest = name.startsWith('ours') ? 'ours: other files' : 'other';
      each.delete(name);
      each.set(rest, (each.get(rest) ?? 0) + us);
    }
    each.set('**all**', total);
  }
  const rows = [...new Set(groups.flatMap((each) => [...each.keys()]))];
  const largest = (row) => Math.max(...groups.map((each) => each.get(row) ?? 0));
  process.stdout.write(`\n${title}\n\n| µs of a request | ${names.map((name) => SERVERS[name].title).join(' | ')} |\n`);
  process.stdout.write(`|---|${names.map(() => '---:|').join('')}\n`);
  for (const row of rows.toSorted((a, b) => largest(b) - largest(a))) {
    process.stdout.write(`| ${row} | ${groups.map((each) => (each.get(row) ?? 0).toFixed(1)).join(' | ')} |\n`);
  }
  for (const [place, name] of names.entries()) {
    const top = [...found[place].functions].sort(([, a], [, b]) => b - a).slice(0, Number(given.top));
    for (const [key, us] of top) process.stdout.write(`${name}  ${us.toFixed(2).padStart(7)}  ${key}\n`);
  }
}

const prepared = await prepareScenario(given, [...SCENARIOS, ...WRITES]);
const { scenario, data, names, targetOf } = prepared;
try {
  for (const connections of prepared.connections) {
    const rounds = names.map(() => []);
    for (let round = 0; round < Number(given.rounds); round += 1) {
      for (const [place, name] of names.entries()) rounds[place].push(await profile(name, connections));
    }
    printTable(`${scenario.name}, ${connections} connections`, names, rounds.map(leanest));
  }
} finally {
  await prepared.dispose();
}
