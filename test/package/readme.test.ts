import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { createProgram } from '#dist/cli/program.js';
import { isErrorCode } from '#dist/errors.js';
import { copyCheckout, ROOT } from '../support/checkout.js';
import { createEmptyDatabase, type TestDatabase } from '../support/engines.js';

/**
 * Every command of the README and of the guides is run as it stands there, in order, in a checkout of its own, where whoever reads it would. What is not run
 * is `npm ci` and `npm test`, because this is what they have begun (.ci/run runs both on a clean checkout).
 */

const NPM = 'npm() { case $1 in ci | test) ;; *) command npm "$@" ;; esac; }';

/** In the order in which they are read. */
const GUIDES = ['README.md', 'docs/rest.md', 'docs/graphql.md', 'docs/operating.md', 'docs/changing.md'];
const guides = new Map(
  await Promise.all(GUIDES.map(async (path) => [path, await readFile(join(ROOT, path), 'utf8')] as const)),
);
const blocks = [...[...guides.values()].join('\n').matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block = '']) => block);
const guide = (path: string) => guides.get(path) ?? '';
const needsPostgres = (block: string) => block.includes('DATABASE_URL');
const serves = (block: string) => /\b(npm start|serve)\s*$/.test(block);

let checkout: string;
let database: TestDatabase;
/** To be restored into: each block that does has one of its own. */
const restored: TestDatabase[] = [];
let env: Record<string, string>;
const running: ChildProcess[] = [];
/** Where the server that was started last listens. */
let url: string | undefined;

beforeAll(async () => {
  checkout = await mkdtemp(join(tmpdir(), 'userdir-readme-'));
  await copyCheckout(checkout);
  database = await createEmptyDatabase();
  env = {
    PATH: process.env['PATH'] ?? '',
    HOME: process.env['HOME'] ?? '',
    PORT: '0',
    ...(inject('engine') === 'postgres' && { DATABASE_URL: database.env['DATABASE_URL'] ?? '' }),
  };
});
afterAll(async () => {
  await stopAll();
  await database.drop();
  for (const each of restored) await each.drop();
  await rm(checkout, { recursive: true, force: true });
});

/** Bash and all that it has started. */
async function stopAll(): Promise<void> {
  for (const child of running.splice(0)) {
    const ended = once(child, 'close');
    process.kill(-(child.pid as number), 'SIGTERM');
    await ended;
  }
}

/** Runs a block; resolves with what it has written when it ends, or as soon as it serves. */
async function run(block: string): Promise<string> {
  const here = block.replaceAll('postgres://userdir@db.internal/userdir', '$DATABASE_URL');
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
      if (serves(block) && stdout.includes('userdir is ready.')) resolve();
    });
  });
  const ended = once(child, 'close').then(([code]) => {
    running.splice(running.indexOf(child), 1);
    if (code !== 0) throw new Error(`${block}ended with ${code}:\n${stdout}${stderr}`);
  });
  await Promise.race([isReady, ended]);
  return stdout;
}

const blocksFor = (isPostgres: boolean) =>
  blocks.filter((block) => needsPostgres(block) === isPostgres).map((block) => [block.trim(), block] as const);

describe.runIf(inject('engine') === 'embedded')('on a machine with nothing else', () => {
  test.each(blocksFor(false))('%s', async (_name, block) => {
    const output = await run(block);
    if (serves(block)) {
      const shown = (form: RegExp) => form.exec(output)?.[1] ?? '';
      url = shown(/GraphQL +(http:\S+)\/graphql/);
      Object.assign(env, { APP_ID: shown(/App ID +(\S+)/), APP_SECRET: shown(/App Secret +(\S+)/) });
      expect((await fetch(`${url}/readyz`)).status).toBe(200);
    }
    if (block.includes('curl')) {
      // One answer for each call, and none of them a failure.
      const calls = block.match(/^(curl|ask '|ask -)/gm)?.length;
      expect(output.match(/\{"(message|data)":/g)).toHaveLength(calls ?? 0);
      expect(output).not.toMatch(/\{"errors?":/);
    }
  });
});

describe.runIf(inject('engine') === 'postgres')('with PostgreSQL', () => {
  test.each(blocksFor(true))('%s', async (_name, block) => {
    if (block.includes('$NEW_DATABASE_URL')) {
      const made = await createEmptyDatabase('postgres');
      restored.push(made);
      env['NEW_DATABASE_URL'] = made.env['DATABASE_URL'] ?? '';
    }
    const output = await run(block);
    if (!serves(block)) {
      expect(output).toMatch(/^Checked \d+ projects: all agree\.$/m);
      return;
    }
    expect(output).toContain('PostgreSQL');
    expect(output).toMatch(/App Secret +uds_/);
  });
});

test('every link within the repository leads somewhere', async () => {
  const links = [...guides].flatMap(([path, text]) =>
    [...text.matchAll(/(?:\]\(|src=")([^)"#]+)(?:#[^)"]*)?[)"]/g)].map(([, link = '']) => join(ROOT, path, '..', link)),
  );
  expect(links.length).toBeGreaterThan(10);
  await Promise.all(links.map((link) => access(link)));
});

test('the table of settings has every setting, and no other', async () => {
  const source = await readFile(join(ROOT, 'src/config/config.ts'), 'utf8');
  const known = [...source.matchAll(/^ {2}([A-Z_]+): /gm)].map(([, name]) => name);
  const shown = [...guide('README.md').matchAll(/^\| `([A-Z_]+)` \|.*\|.*\|$/gm)].map(([, name]) => name);
  const isSetting = (name: string | undefined) => name !== 'NODE_ENV' && !isErrorCode(name);
  expect(shown.filter(isSetting).toSorted()).toEqual(known.filter(isSetting).toSorted());
});

test('the table of commands has every command, and no other', () => {
  const namesOf = (command: Command): string[] =>
    command.commands.length === 0
      ? [command.name()]
      : command.commands.flatMap(namesOf).map((name) => `${command.name()} ${name}`);
  const known = createProgram({}).commands.flatMap(namesOf);
  const table = /^\| command \| does \|\n(.*?)\n\n/ms.exec(guide('docs/operating.md'))?.[1] ?? '';
  const shown = table
    .split('\n')
    .slice(1)
    .map((row) => row.split(' | ')[0] ?? '');
  const missing = known.filter((name) => !shown.some((row) => row.includes(`\`${name}`) || row.includes(`${name}\``)));
  expect(missing).toEqual([]);
  expect(shown.length).toBeGreaterThan(10);
  const isKnown = (row: string) => known.some((name) => row.startsWith(`| \`${name}`));
  expect(shown.filter((row) => !isKnown(row))).toEqual([]);
});
