import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ROOT } from '../support/checkout.js';
import { CLIENTS, hasClients } from '../support/clients.js';
import { type RunningServer, startServer } from '../support/command.js';
import { createEmptyDatabase, type TestDatabase } from '../support/engines.js';
import { type Example, readPage, requireShown } from '../support/examples.js';

const run = promisify(execFile);
const COMPILER_OPTIONS = { target: 'es2023', module: 'nodenext', strict: true, skipLibCheck: true, outDir: 'dist' };

describe.runIf(hasClients)('the TypeScript client of docs/graphql.md', () => {
  let database: TestDatabase;
  let server: RunningServer;
  let folder: string;
  let client: Example;

  /** The files that a reader of the page has in one folder, adapted to this service. */
  beforeAll(async () => {
    database = await createEmptyDatabase('embedded');
    server = await startServer(database.env);
    folder = await mkdtemp(join(CLIENTS, '.made-guide-'));
    const { examples } = await readPage('docs/graphql.md');
    const file = (name: string) => {
      const example = examples.find((each) => each.file === name);
      if (example === undefined) throw new Error(`The page has no ${name}.`);
      return example;
    };
    client = file('client.ts');
    const files = {
      'package.json': '{ "type": "module" }',
      'tsconfig.json': JSON.stringify({ compilerOptions: COMPILER_OPTIONS }),
      'queries.graphql': examples.find(({ code }) => code.startsWith('query NewestUsers'))?.code ?? '',
      'codegen.ts': file('codegen.ts').code,
      'client.ts': client.code,
    };
    for (const [name, text] of Object.entries(files)) {
      await writeFile(join(folder, name), text.replaceAll('http://127.0.0.1:4000', server.url));
    }
  });
  afterAll(async () => {
    await rm(folder, { recursive: true });
    await server.stop();
    await database.drop();
  });

  function runHere(file: string, ...args: string[]) {
    const { app_id: APP_ID = '', app_secret: APP_SECRET = '' } = server.demo ?? {};
    return run(file, args, { cwd: folder, env: { PATH: process.env['PATH'] ?? '', APP_ID, APP_SECRET } });
  }

  test('gets types from the running service, compiles, and prints what the page shows', async () => {
    await runHere(join(CLIENTS, 'node_modules/.bin/graphql-codegen'));
    const compiled = await runHere(join(ROOT, 'node_modules/.bin/tsc'), '-p', '.', '--types', 'node');
    expect(compiled.stdout).toBe('');
    const { stdout } = await runHere(process.execPath, 'dist/client.js');
    expect(client.answer).toBeDefined();
    requireShown(stdout, client);
  });
});
