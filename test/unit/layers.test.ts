import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findFaults, type Module, readModules } from '../support/layers.js';

const SOURCE_DIR = fileURLToPath(new URL('../../src', import.meta.url));

test('the source keeps the rules of the house', () => {
  expect(findFaults(readModules(SOURCE_DIR))).toEqual([]);
});

test('every layer is there for the rules to look at, with its imports', () => {
  const imported = new Map(readModules(SOURCE_DIR).map(({ path, imports }) => [path, imports]));
  for (const [from, to, typeOnly] of [
    ['rest/users', 'services/users', true],
    ['graphql/users', 'services/filters', false],
    ['graphql/builder', 'db/generated/pothos', true],
    ['services/users', 'sql/find-users', false],
    ['sql/find-users', 'db/client', false],
    ['db/client', 'config', true],
    ['cli', 'cli/program', false],
  ] as const) {
    expect(imported.get(from)).toContainEqual({ to, isOurs: true, typeOnly, onDemand: false });
  }
  expect(imported.get('graphql/explorer'), 'a dynamic import').toContainEqual({
    to: '@graphql-yoga/render-graphiql',
    isOurs: false,
    typeOnly: false,
    onDemand: true,
  });
});

/** Files that each break one rule, and the sentence that says so; null for one that keeps them. */
const BREACHES: readonly [path: string, text: string, fault: string | null][] = [
  ['errors.ts', `import type { Logger } from './logger.js';`, 'errors may not import logger.'],
  ['logger.ts', `export * from './config.js';`, 'logger may not import config.'],
  ['config.ts', `export { a } from './db/lock.js';`, 'config may not import db/lock.'],
  ['db/client.ts', `import { isLoopback } from '../config.js';`, 'db/client may not import config except as types.'],
  ['db/migrate.ts', `import type { A } from '../services/users.js';`, 'db/migrate may not import services/users.'],
  ['db/embedded.ts', `import type { A } from '../config.js';`, null],
  ['sql/a.ts', `import { b } from '../services/users.js';`, 'sql/a may not import services/users except as types.'],
  [
    'sql/b.ts',
    `import { type B, c } from '../services/users.js';`,
    'sql/b may not import services/users except as types.',
  ],
  [
    'sql/c.ts',
    `import { type B } from '../services/users.js';`,
    'sql/c may not import services/users except as types.',
  ],
  ['sql/f.ts', `import type { B } from '../services/users.js';`, null],
  ['sql/d.ts', `export type C = import('../services/users.js').C;`, null],
  ['sql/e.ts', `import { migrate } from '../db/migrate.js';`, 'sql/e may not import db/migrate.'],
  ['services/users.ts', `import type { FastifyRequest } from 'fastify';`, 'services/users may not know of fastify.'],
  ['services/a.ts', `import { GraphQLError } from 'graphql';`, 'services/a may not know of graphql.'],
  ['services/b.ts', `import { createServer } from 'node:http';`, 'services/b may not know of node:http.'],
  ['services/c.ts', `import type { Authenticate } from '../auth.js';`, 'services/c may not import auth.'],
  ['services/d.ts', `export const load = () => import('../rest/users.js');`, 'services/d may not import rest/users.'],
  ['services/e.ts', `import { createLogger } from '../logger.js';`, 'services/e may not import logger.'],
  ['rest/users.ts', `import type { A } from '../graphql/users.js';`, 'rest/users may not import graphql/users.'],
  ['rest/a.ts', `import type { A } from '../db/client.js';`, 'rest/a may not import db/client.'],
  ['rest/b.ts', `import { findUsers } from '../sql/find-users.js';`, 'rest/b may not import sql/find-users.'],
  ['graphql/builder.ts', `import type T from '../db/generated/pothos.js';`, null],
  [
    'graphql/users.ts',
    `import type T from '../db/generated/pothos.js';`,
    'graphql/users may not import db/generated/pothos.',
  ],
  ['app.ts', `import { serve } from './cli/serve.js';`, 'app may not import cli/serve.'],
  ['cli.ts', `import { serve } from './cli/serve.js';\nexport const port = process.env['PORT'];`, null],
  ['cli/a.ts', `import './b.js';`, 'cli/a → cli/b → cli/a is a cycle.'],
  ['cli/b.ts', `import './a.js';`, null],
  ['cli/c.ts', `import './d.js';`, null],
  ['cli/d.ts', `import type { C } from './c.js';`, null],
  ['cli/e.ts', `export const port = process.env.PORT;`, 'cli/e reads process.env.'],
  ['cli/f.ts', `export const port = process['env'].PORT;`, 'cli/f reads process.env.'],
  ['a.ts', `import { serveMetrics } from './metrics.js';`, 'a may not import metrics except on demand.'],
  ['b.ts', `import type { Tracing } from './tracing.js';\nexport const load = () => import('./tracing.js');`, null],
  ['c.ts', `import { trace } from '@opentelemetry/api';`, 'c may not know of @opentelemetry/api.'],
  ['cli/camelCase.ts', '', 'cli/camelCase is not in kebab-case.'],
  ['cli/g.ts', 'export default 1;', 'cli/g has a default export.'],
  ['cli/h.ts', 'const a = 1;\nexport { a as default };', 'cli/h has a default export.'],
  ['cli/i.ts', 'export default function run() {}', 'cli/i has a default export.'],
  ['cli/j.ts', 'export function f(x: number) { switch (x) { default: return 1; } }', null],
  ['cli/k.ts', '\n'.repeat(401), 'cli/k has 401 lines, more than 400.'],
  ['cli/l.ts', `export const cdn = 'https://cdn.invalid/a.js';`, 'cli/l names the host cdn.invalid.'],
  ['cli/m.ts', `// See http://user:pw@other.invalid/`, 'cli/m names the host other.invalid.'],
  ['cli/n.ts', `export const a = ['http://127.0.0.1:4000', 'http://localhost/x', 'https://mail.example.net/'];`, null],
];

describe('a breach of each rule is seen', () => {
  let sourceDir: string;
  let modules: Module[];
  beforeAll(async () => {
    sourceDir = await mkdtemp(join(tmpdir(), 'userdir-layers-'));
    await writeFile(
      join(sourceDir, 'tsconfig.json'),
      JSON.stringify({ compilerOptions: { module: 'nodenext', noResolve: true, types: [] }, include: ['.'] }),
    );
    for (const [path, text] of BREACHES) {
      await mkdir(dirname(join(sourceDir, path)), { recursive: true });
      await writeFile(join(sourceDir, path), text);
    }
    modules = readModules(sourceDir);
  });
  afterAll(() => rm(sourceDir, { recursive: true }));

  test('each file is found guilty of its breach, and of nothing else', () => {
    const faults = BREACHES.flatMap(([, , fault]) => fault ?? []);
    expect(findFaults(modules).toSorted()).toEqual(faults.toSorted());
  });
});
