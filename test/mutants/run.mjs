/**
 * `npm run mutants`: how sharp the tests are. Changes one condition, operator, bound or literal of the build at a time, runs the tests that
 * enter the function it stands in, and says which changes no test noticed.
 *
 * Not Stryker: our tests run the build over HTTP on a service that the files of a worker share, so that it cannot tell which test enters
 * what, and half of our conditions stand in SQL, which it only empties.
 */
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { SourceMap } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { EQUAL } from './equal.mjs';
import { apply, instrument, readFile } from './mutations.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const RECORDER = pathToFileURL(join(ROOT, 'test/mutants/recorder.mjs')).href;

/** Each room: what the names of its files begin with, below `dist`. */
const ROOMS = {
  users: ['users/'],
  feed: ['feed/'],
  projects: ['projects/'],
  graphql: ['graphql/'],
  rest: ['rest/'],
  http: ['http/authentication.js', 'http/admission.js'],
  engine: ['engine/cost.js', 'engine/execution.js', 'engine/compiled.js'],
  domain: ['domain/'],
  db: ['db/batched-', 'db/write-plan.js', 'db/replica.js', 'db/standby-checks.js', 'db/lag-meter.js'],
  client: ['client/'],
};

const print = (text) => process.stdout.write(`${text}\n`);

const { values } = parseArgs({
  options: {
    room: { type: 'string' },
    file: { type: 'string' },
    sample: { type: 'string', default: '20' },
    seed: { type: 'string', default: '1' },
    lanes: { type: 'string', default: '2' },
    slow: { type: 'boolean', default: false },
    files: { type: 'string', default: '0' },
    json: { type: 'string' },
    entered: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});

if (values.help) {
  print(`npm run mutants -- [OPTIONS]
  --room NAME    only this room: ${Object.keys(ROOMS).join(', ')}
  --file NAME    only this file of the build, such as users/users.js
  --sample N     this many changes of each room, chosen by the seed; 0 for all (20)
  --seed S       another seed chooses others (1)
  --lanes N      this many changes at the same time (2)
  --files N      tries at most N files of tests for a change: sooner, and the share is at least what it says; 0 for all (0)
  --slow         what npm test does not notice is tried with the slow tests too
  --json FILE    writes each change with its outcome
  --entered FILE keeps which tests enter what, for the next run with the same build`);
  process.exit();
}

function refuse(option, expected) {
  process.stderr.write(`--${option}: got ${values[option]}, expected ${expected}.\n`);
  process.exit(2);
}

if (values.room !== undefined && !Object.hasOwn(ROOMS, values.room))
  refuse('room', `one of ${Object.keys(ROOMS).join(', ')}`);
for (const option of ['sample', 'seed', 'lanes', 'files'])
  if (!/^\d+$/.test(values[option])) refuse(option, 'a whole number');

const PROJECTS = ['fast', ...(values.slow ? ['slow'] : [])];
const folder = mkdtempSync(join(tmpdir(), 'userdir-mutants-'));
const running = new Set();
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));
process.on('exit', () => {
  for (const child of running) end(child);
  rmSync(folder, { recursive: true, force: true });
});

/** A copy of the checkout, whose build can be changed. */
function copyCheckout(name) {
  const copy = join(folder, name);
  const isOwn = (path) => !/(^|\/)(node_modules|\.git)$/.test(path);
  cpSync(ROOT, copy, { recursive: true, filter: isOwn });
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
  return copy;
}

/** Resolves to whether the tests pass; null if they took too long. */
function runTests(copy, project, files, { seconds, env = {}, report }) {
  const args = [
    'run',
    '--bail',
    '1',
    '--project',
    project,
    ...(report ? ['--reporter=json', `--outputFile=${report}`] : []),
    ...files,
  ];
  return new Promise((resolve) => {
    const child = spawn(join(ROOT, 'node_modules/.bin/vitest'), args, {
      cwd: copy,
      detached: true,
      stdio: 'ignore',
      env: { ...process.env, TEST_DATABASE_URL: '', BUILT: 'yes', ...env },
    });
    running.add(child);
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      end(child);
    }, seconds * 1000);
    child.on('close', (code) => {
      clearTimeout(timer);
      // Its workers may run on, where a change made a loop endless.
      end(child);
      running.delete(child);
      resolve(isLate ? null : code === 0);
    });
  });
}

function end(child) {
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // All of its group have ended.
  }
}

const filesOf = (room) =>
  readdirSync(join(ROOT, 'dist'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.js') && ROOMS[room].some((start) => name.startsWith(start)))
    .filter((name) => values.file === undefined || name === values.file)
    .sort();

/** A number between 0 and 1 for each call, the same ones for a seed (mulberry32). */
function randomNumbers(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function choose(mutations) {
  const limit = Number(values.sample);
  if (limit === 0) return mutations;
  const random = randomNumbers(Number(values.seed));
  return mutations
    .map((mutation) => ({ mutation, place: random() }))
    .sort((a, b) => a.place - b.place)
    .slice(0, limit)
    .map(({ mutation }) => mutation);
}

/** The line of the source that a place of the build comes from, and its text. */
function sourceOf(file, code, start) {
  const map = `${join(ROOT, 'dist', file)}.map`;
  const before = code.slice(0, start).split('\n');
  const built = (code.split('\n')[before.length - 1] ?? '').trim();
  // The client is built without.
  if (!existsSync(map)) return { source: `dist/${file}`, line: before.length, text: built };
  const { originalLine = 0, originalSource } = new SourceMap(JSON.parse(readFileSync(map, 'utf8'))).findEntry(
    before.length - 1,
    before.at(-1).length,
  );
  const path = join(ROOT, 'src', file).replace(/[^/]+$/, basename(originalSource ?? file));
  const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n') : [];
  // A map knows where a text of several lines begins: the line of SQL is the next one that is as in the build.
  const same = lines.findIndex((line, index) => index >= originalLine && line.trim() === built);
  const found = same < 0 ? originalLine : same;
  return { source: relative(ROOT, path), line: found + 1, text: (lines[found] ?? '').trim() };
}

/** The files of tests by the function that they enter: as they were kept for this build, or else by running all tests once. */
async function enteredFor(everyFile) {
  const build = createHash('sha256');
  for (const file of everyFile) build.update(readFileSync(join(ROOT, 'dist', file)));
  const of = `${PROJECTS} ${build.digest('hex')}`;
  const kept =
    values.entered !== undefined && existsSync(values.entered) && JSON.parse(readFileSync(values.entered, 'utf8'));
  if (kept && kept.of === of) return new Map(kept.tests.map(([name, tests]) => [name, new Set(tests)]));
  const entered = await findEntered(everyFile);
  const tests = [...entered].map(([name, files]) => [name, [...files]]);
  if (values.entered !== undefined) writeFileSync(values.entered, JSON.stringify({ of, tests }));
  return entered;
}

/** Runs all tests once. */
async function findEntered(everyFile) {
  const copy = copyCheckout('entered');
  for (const file of everyFile) {
    const path = join(copy, 'dist', file);
    const code = readFileSync(path, 'utf8');
    writeFileSync(path, instrument(code, file, readFile(code).functions));
  }
  const entered = new Map();
  for (const project of PROJECTS) {
    const record = join(folder, `entered-${project}`);
    const report = join(folder, `report-${project}.json`);
    writeFileSync(record, '');
    const passed = await runTests(copy, project, [], {
      seconds: 1800,
      env: { MUTANTS_ENTERED: record, NODE_OPTIONS: `--import ${RECORDER}` },
      report,
    });
    if (!passed) throw new Error(`The tests of ${project} fail without a change: ${failuresOf(report)}`);
    for (const line of readFileSync(record, 'utf8').split('\n').filter(Boolean)) {
      const [name, test] = line.split('\t');
      const key = `${project} ${name}`;
      entered.set(key, (entered.get(key) ?? new Set()).add(relative(copy, test)));
    }
  }
  rmSync(copy, { recursive: true, force: true });
  return entered;
}

const failuresOf = (report) =>
  existsSync(report)
    ? JSON.parse(readFileSync(report, 'utf8'))
        .testResults.filter(({ status }) => status === 'failed')
        .map(({ name, message }) => `${name} ${message}`)
        .join('; ')
    : 'they did not run';

/**
 * What runs once in a worker, as a schema is built, is entered by the file that comes first there. These look at all that is built.
 */
const OF_SCHEMAS = ['contract/schema', 'contract/openapi', 'api/graphql-cost', 'contract/secret-scopes'].map(
  (name) => `test/${name}.test.ts`,
);
const buildsSchema = (file) => /^(graphql|rest|engine)\//.test(file);

/** How often each file of tests noticed a change in a file of the build: those are tried first. */
const noticed = new Map();

/**
 * The tests that can notice a change: in turn one that enters much of the changed file, as it is likely about it, and one that enters little of
 * everything, as it is soon done.
 */
function testsFor(entered, project, { file, enclosing }) {
  const own = [...entered.keys()].filter((key) => key.startsWith(`${project} ${file}#`));
  const keys = enclosing === null ? own : [`${project} ${file}#${enclosing}`];
  const tests = new Set(keys.flatMap((key) => [...(entered.get(key) ?? [])]));
  if (project === 'fast' && tests.size > 0 && buildsSchema(file)) for (const test of OF_SCHEMAS) tests.add(test);
  const looksAtIt = (test) => buildsSchema(file) && enclosing === null && OF_SCHEMAS.includes(test);
  const isNamedAlike = (test) => basename(test).includes(basename(file).split('.')[0]);
  const known = (test) =>
    (noticed.get(`${file} ${test}`) ?? 0) + (looksAtIt(test) ? 1e6 : 0) + (isNamedAlike(test) ? 0.5 : 0);
  const entersOfFile = (test) => own.filter((key) => entered.get(key)?.has(test)).length;
  const ofAll = entersOf(entered);
  const inTurn = interleave(
    [...tests].sort((a, b) => entersOfFile(b) - entersOfFile(a) || (ofAll.get(a) ?? 0) - (ofAll.get(b) ?? 0)),
    [...tests].sort((a, b) => (ofAll.get(a) ?? 0) - (ofAll.get(b) ?? 0)),
  );
  return inTurn.sort((a, b) => known(b) - known(a)).slice(0, Number(values.files) || undefined);
}

/** One of each list in turn, each item once. */
const interleave = (one, other) => [...new Set(one.flatMap((item, place) => [item, other[place]]))];

let enters;
function entersOf(entered) {
  if (enters === undefined) {
    enters = new Map();
    for (const tests of entered.values()) for (const test of tests) enters.set(test, (enters.get(test) ?? 0) + 1);
  }
  return enters;
}

/** The files of tests that run at first; the others only if these notice nothing. */
const FIRST = 4;

async function tryProject(copy, entered, project, mutation) {
  const tests = testsFor(entered, project, mutation);
  for (const part of [tests.slice(0, FIRST), tests.slice(FIRST)]) {
    if (part.length === 0) continue;
    const passed = await runTests(copy, project, part, { seconds: 60 + 20 * part.length });
    if (passed === true) continue;
    if (part.length <= FIRST)
      for (const test of part)
        noticed.set(`${mutation.file} ${test}`, (noticed.get(`${mutation.file} ${test}`) ?? 0) + 1);
    return passed === null ? 'no end' : 'noticed';
  }
  return tests.length === 0 ? 'never entered' : 'not noticed';
}

async function tryMutation(copy, entered, mutation) {
  const path = join(copy, 'dist', mutation.file);
  writeFileSync(path, apply(mutation.code, mutation));
  try {
    let outcome;
    for (const project of PROJECTS) {
      outcome = await tryProject(copy, entered, project, mutation);
      if (outcome === 'noticed' || outcome === 'no end') return { by: project, outcome };
    }
    return { by: null, outcome };
  } finally {
    writeFileSync(path, mutation.code);
  }
}

/** A pause or a limit of time of at least 20 ms that is longer by one: no test could tell it without a clock of its own. */
function isOneMillisecond({ text, found, replacement }) {
  const ms = Number(found.replaceAll('_', ''));
  return /\w_MS\b.* = /.test(text) && ms >= 20 && Number(replacement) === ms + 1;
}

/** A name of an option of the client, whose value nobody reads (client/options.ts). */
const isNameOfOption = ({ source, text, found, replacement }) =>
  source.startsWith('dist/client/') &&
  /^\w+: true,$|_OPTIONS = |requireKnown\(/.test(text) &&
  found === 'true' &&
  replacement === 'false';

const isEqual = (mutation) => isOneMillisecond(mutation) || isNameOfOption(mutation) || isKnownEqual(mutation);

const isKnownEqual = ({ source, text, found, replacement }) =>
  EQUAL.some(
    (known) => known.file === source && text.includes(known.line) && known.from === found && known.to === replacement,
  );

function printTable(results) {
  print(`\n| room | changes | equal in effect | noticed by npm test |${values.slow ? ' with the slow tests |' : ''}`);
  print(`| --- | --- | --- | --- |${values.slow ? ' --- |' : ''}`);
  for (const room of Object.keys(ROOMS)) {
    const own = results.filter((result) => result.room === room);
    if (own.length === 0) continue;
    const counted = own.filter((result) => result.by !== null || !isEqual(result));
    const share = (hits) => `${Math.round((100 * hits) / counted.length)} % (${hits} of ${counted.length})`;
    const fast = counted.filter(({ by }) => by === 'fast').length;
    const all = counted.filter(({ by }) => by !== null).length;
    print(
      `| ${room} | ${own.length} | ${own.length - counted.length} | ${share(fast)} |${values.slow ? ` ${share(all)} |` : ''}`,
    );
  }
}

const describe = ({ source, line, text, found, replacement, outcome }) =>
  `${source}:${line}  ${found.replaceAll(/\s+/g, ' ')} → ${replacement}  (${outcome})\n    ${text}`;

const everyFile = Object.keys(ROOMS).flatMap(filesOf);
const chosen = Object.keys(ROOMS)
  .filter((room) => values.room === undefined || room === values.room)
  .flatMap((room) => {
    const mutations = filesOf(room).flatMap((file) => {
      const code = readFileSync(join(ROOT, 'dist', file), 'utf8');
      return readFile(code).mutations.map((mutation) => ({ ...mutation, room, file, code }));
    });
    print(`${room}: ${mutations.length} places`);
    return choose(mutations);
  });

execFileSync('npm', ['run', '-s', 'build'], { cwd: ROOT, stdio: ['ignore', 'ignore', 'inherit'] });
print(`Looking which tests enter what, then ${chosen.length} changes.`);
const entered = await enteredFor(everyFile);
const results = [];
const left = [...chosen];
await Promise.all(
  Array.from({ length: Number(values.lanes) }, async (_, lane) => {
    const copy = copyCheckout(`lane-${lane}`);
    for (let mutation = left.shift(); mutation !== undefined; mutation = left.shift()) {
      const { file, room, start, end, replacement, code } = mutation;
      const result = {
        room,
        file,
        ...sourceOf(file, code, start),
        found: code.slice(start, end),
        replacement,
        ...(await tryMutation(copy, entered, mutation)),
      };
      results.push(result);
      print(`${results.length}/${chosen.length} ${result.by === null ? 'NOT' : 'yes'} ${describe(result)}`);
      if (values.json !== undefined) writeFileSync(values.json, JSON.stringify(results, null, 1));
    }
  }),
);
printTable(results);
