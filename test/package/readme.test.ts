import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { access, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Command } from 'commander';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { createProgram } from '#dist/cli/program.js';
import { SETTINGS } from '#dist/config/settings.js';
import { AppError, ERROR_CODES } from '#dist/errors.js';
import { copyBuild, copyCheckout, ROOT } from '../support/checkout.js';
import { type RunningServer, startServer } from '../support/command.js';
import { copyTemplate, createEmptyDatabase, type TestDatabase } from '../support/engines.js';
import { type Example, type Page, readPage, requireShown } from '../support/examples.js';

/**
 * Runs every code block of the README and the guides unchanged, in page order, in a checkout with a new demo project, and compares the
 * output with the page. `npm test`, and what `npm ci` and the build do in a fresh clone, is left to .ci/run; package.test.ts builds anew.
 * The measurements of docs/benchmarks.md take minutes. test/clients runs the `ts` and `py` blocks.
 */

// An installation would install what builds, also for production. What is here is used.
const CI = `rm node_modules && command npm ci --dry-run | grep '^add vite ' && ln -s '${ROOT}/node_modules' .`;
const NPM = `npm() { case $1 in test) ;; ci) ${CI} ;; *) command npm "$@" ;; esac; }`;
const README = 'README.md';
const PAGES = [
  README,
  ...(await readdir(join(ROOT, 'docs'))).filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`),
];
const MEASURED = 'docs/benchmarks.md';

const pages = await Promise.all(PAGES.sort().map(readPage));
const guide = (path: string) => pages.find((page) => page.path === path)?.text ?? '';
const needsPostgres = ({ code }: Example) => code.includes('DATABASE_URL');
const serves = ({ code }: Example) => /\b(npm start|serve)\s*$/.test(code);
const runnable = pages.filter(({ path }) => path !== MEASURED);
const examplesOf = ({ examples }: Page, isPostgres: boolean) =>
  examples
    .filter((example) => !['ts', 'py'].includes(example.kind) && needsPostgres(example) === isPostgres)
    .map((example) => [`line ${example.line}: ${example.code.trim().split('\n')[0]}`, example] as const);

let checkout: string;
let database: TestDatabase;
/** Databases to restore into, one for each block that restores. */
const restored: TestDatabase[] = [];
let env: Record<string, string>;
const running: ChildProcess[] = [];
/** The URL of the server that was started last. */
let url: string | undefined;

beforeAll(async () => {
  checkout = await mkdtemp(join(tmpdir(), 'userdir-readme-'));
  await copyCheckout(checkout);
  await copyBuild(checkout);
  database = await createEmptyDatabase();
  env = {
    PATH: process.env['PATH'] ?? '',
    HOME: process.env['HOME'] ?? '',
    PORT: '0',
    // As the servers of tests, whose start adds this operator.
    OPERATOR: 'tester',
    ...(inject('engine') === 'postgres' && { DATABASE_URL: database.env['DATABASE_URL'] ?? '' }),
  };
});
afterAll(async () => {
  await stopAll();
  await database.drop();
  for (const each of restored) await each.drop();
  await rm(checkout, { recursive: true, force: true });
});

/** Stops bash and every process that it started. */
async function stopAll(): Promise<void> {
  for (const child of running.splice(0)) {
    const ended = once(child, 'close');
    process.kill(-(child.pid as number), 'SIGTERM');
    await ended;
  }
}

/** Runs a shell block; resolves with its output when it ends, or as soon as it serves. */
async function run(example: Example): Promise<string> {
  const here = example.code.replaceAll('postgres://userdir@db.internal/userdir', '$DATABASE_URL');
  const script = `set -euo pipefail\n${NPM}\n${url === undefined ? here : here.replaceAll('http://127.0.0.1:4000', url)}`;
  const child = spawn('bash', ['-c', script], { cwd: checkout, env, detached: true });
  running.push(child);
  let stdout = '';
  let stderr = '';
  child.stderr.on('data', (text) => {
    stderr += text;
  });
  const isReady = new Promise<void>((resolve) => {
    child.stdout.on('data', (text) => {
      stdout += text;
      if (serves(example) && stdout.includes('userdir is ready.')) resolve();
    });
  });
  const ended = once(child, 'close').then(([code]) => {
    running.splice(running.indexOf(child), 1);
    if (code !== 0) throw new Error(`${example.code}ended with ${code}:\n${stdout}${stderr}`);
  });
  await Promise.race([isReady, ended]);
  return stdout;
}

/** Sends the request of the page with the credentials of the demo project. */
async function ask({ code, variables }: Example): Promise<string> {
  const { APP_ID = '', APP_SECRET = '' } = env;
  const headers = { 'content-type': 'application/json', 'service-app-id': APP_ID, 'service-app-secret': APP_SECRET };
  const body = JSON.stringify({ query: code, variables });
  return (await fetch(`${url}/graphql`, { method: 'POST', headers, body })).text();
}

describe.runIf(inject('engine') === 'embedded')('without PostgreSQL', () => {
  describe.each(
    runnable.filter((page) => examplesOf(page, false).length > 0).map((page) => [page.path, page] as const),
  )('%s', (path, page) => {
    let server: RunningServer | undefined;

    // The README starts its service itself.
    beforeAll(async () => {
      if (path === README) return;
      const own = await copyTemplate();
      restored.push(own);
      env['DATA_DIR'] = own.env['DATA_DIR'] ?? '';
      server = await startServer({ DATA_DIR: env['DATA_DIR'] });
      url = server.url;
      Object.assign(env, { APP_ID: server.demo?.app_id, APP_SECRET: server.demo?.app_secret });
    });
    afterAll(async () => {
      await stopAll();
      await server?.stop();
      url = undefined;
    });

    test.each(examplesOf(page, false))('%s', async (_name, example) => {
      const output = example.kind === 'graphql' ? await ask(example) : await run(example);
      requireShown(output, example);
      if (/curl/.test(example.code) || example.kind === 'graphql') expect(example.answer).toBeDefined();
      if (!serves(example)) return;
      const [, appId = '', appSecret = ''] = /export APP_ID=(\S+) APP_SECRET=(\S+)/.exec(output) ?? [];
      Object.assign(env, { APP_ID: appId, APP_SECRET: appSecret });
      url = /Start here +(http:\S+)/.exec(output)?.[1];
      expect((await fetch(`${url}/readyz`)).status).toBe(200);
    });
  });
});

describe.runIf(inject('engine') === 'postgres')('with PostgreSQL', () => {
  test.each(runnable.flatMap((page) => examplesOf(page, true)))('%s', async (_name, example) => {
    if (example.code.includes('$NEW_DATABASE_URL')) {
      const made = await createEmptyDatabase('postgres');
      restored.push(made);
      env['NEW_DATABASE_URL'] = made.env['DATABASE_URL'] ?? '';
    }
    const output = await run(example);
    if (!serves(example)) {
      expect(output).toMatch(/^Checked \d+ projects?: all agree\.$/m);
      return;
    }
    expect(output).toContain('PostgreSQL');
    expect(output).toMatch(/App Secret +uds_/);
    const doctor = await run({ ...example, code: 'npm run -s userdir -- doctor\n' });
    expect(doctor).toMatch(/✓ +build +complete/);
  });
});

test('every link within the repository has a target', async () => {
  const links = pages.flatMap(({ path, text }) =>
    [...text.matchAll(/(?:\]\(|src=")(?!https:)([^)"#]+)(?:#[^)"]*)?[)"]/g)].map(([, link = '']) =>
      join(ROOT, path, '..', link),
    ),
  );
  expect(links.length).toBeGreaterThan(10);
  await Promise.all(links.map((link) => access(link)));
});

test('docs/README.md says how many minutes a page takes, as the page itself does, at 200 words a minute', async () => {
  const links = [...guide('docs/README.md').matchAll(/\]\(([\w/]+\.md)\) \((\d+)\)/g)];
  const stated = links.map(([, path = '', minutes]) => ({ path, minutes: Number(minutes) }));
  expect(stated.length).toBeGreaterThan(10);
  for (const { path, minutes } of stated) {
    const { text } = await readPage(`docs/${path}`);
    const takes = text.split(/\s+/).length / 200;
    expect(Math.abs(minutes - takes), `${path} takes ${takes} minutes`).toBeLessThan(Math.max(1, takes / 4));
    const itself = /\b(\d+) minutes?\b/.exec(text.split('\n\n')[1] ?? '')?.[1] ?? minutes;
    expect(Number(itself), path).toBe(minutes);
  }
});

test('the README is short, and shows six existing settings', () => {
  const readme = guide(README);
  expect(readme.trimEnd().split('\n').length).toBeLessThanOrEqual(120);
  const shown = [...readme.matchAll(/^\| `([A-Z_]+)` \|/gm)].map(([, name]) => name);
  expect(shown).toHaveLength(6);
  expect(shown.filter((name) => !SETTINGS.includes(name ?? ''))).toEqual([]);
});

test('docs/errors.md has the codes of the source (npm run docs:errors)', async () => {
  const { stdout: page } = await promisify(execFile)(process.execPath, [join(ROOT, 'test/support/error-table.mjs')]);
  expect(guide('docs/errors.md')).toBe(page);
  const rows = [...page.matchAll(/^\| `([A-Z_]+)` \| (\d+) \|/gm)];
  const shown = rows.map(([, code = '', status = '']) => [code, Number(status)]);
  expect(shown).toEqual(ERROR_CODES.map((code) => [code, new AppError(code, '').status]));
});

test('the table of commands has exactly the existing commands', () => {
  const namesOf = (command: Command): string[] =>
    command.commands.length === 0
      ? [command.name()]
      : command.commands.flatMap(namesOf).map((name) => `${command.name()} ${name}`);
  const known = createProgram({}).commands.flatMap(namesOf);
  const table = /^\| command \| what it does \|\n(.*?)\n\n/ms.exec(guide('docs/operating.md'))?.[1] ?? '';
  const shown = [...table.matchAll(/^\| `(\w+)`([^|]*)\|/gm)].flatMap(([, name = '', below = '']) =>
    below.trim() === '' ? [name] : (below.match(/[a-z-]+/g) ?? []).map((its) => `${name} ${its}`),
  );
  expect(shown.sort()).toEqual(known.sort());
});

test('every test and command that the guarantees name exists', async () => {
  const text = guide('docs/guarantees.md');
  const { scripts } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'));
  const commands = [...text.matchAll(/`npm run (\w+)/g)].map(([, name = '']) => name);
  expect(commands.filter((name) => scripts[name] === undefined)).toEqual([]);
  const files = [...text.matchAll(/`((?:api|browser|clients|contract|db|process|unit)\/[a-z-]+)`/g)].map(
    ([, name = '']) => name,
  );
  expect(files.length).toBeGreaterThan(30);
  const isThere = (name: string) => existsSync(join(ROOT, 'test', `${name}.test.ts`));
  expect(files.filter((name) => !isThere(name) && !isThere(`${name}.slow`))).toEqual([]);
});
