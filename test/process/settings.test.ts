import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, inject, test } from 'vitest';
import { type Credentials, call, linesOf, recordLogin, startServer, userdir, userdirJson } from '../support/command.js';
import { copyTemplate, createEmptyDatabase, queryPostgres } from '../support/engines.js';

test.runIf(inject('engine') === 'embedded')(
  'in production the embedded database must be requested, and a misspelt setting is named',
  async () => {
    await using database = await createEmptyDatabase('embedded');
    const settings = { ...database.env, NODE_ENV: 'production', DATABASE_URI: 'postgres://me:hush@db.example/x' };
    for (const args of [['project', 'create', '--name', 'Test'], ['migrate']]) {
      const { code, stdout, stderr } = await userdir({ ...settings, PORT: '0' }, args);
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      const [fault, misspelt, ...more] = stderr.trimEnd().split('\n');
      expect(fault).toMatch(/^DATABASE_URL must be set, because NODE_ENV is production: .*EMBEDDED=on/);
      expect([misspelt, more]).toEqual([
        'DATABASE_URI is not a setting and is ignored. Did you mean DATABASE_URL?',
        [],
      ]);
    }
    // The log of a server is JSON: one line.
    const { code, stdout, stderr } = await userdir({ ...settings, PORT: '0', RATE_LIMIT: 'x' }, ['serve']);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(linesOf(stderr)).toEqual([
      expect.objectContaining({
        level: 60,
        settings: ['RATE_LIMIT', 'DATABASE_URL'],
        msg: expect.stringMatching(/^RATE_LIMIT must be .* DATABASE_URL must be set, .* Did you mean DATABASE_URL\?$/),
      }),
    ]);
    expect(existsSync(join(database.env['DATA_DIR'] ?? '', 'pgdata'))).toBe(false);
    await userdirJson({ ...database.env, NODE_ENV: 'production', EMBEDDED: 'on' }, ['project', 'list']);
  },
);

test.runIf(inject('engine') === 'embedded')(
  'a server and a command warn about a misspelt setting and continue',
  async () => {
    await using database = await copyTemplate();
    const settings = { ...database.env, DEMO: 'off', RATE_LIMITS: '5' };
    const server = await startServer(settings);
    expect((await fetch(`${server.url}/readyz`)).status).toBe(200);
    const { code, stderr } = await userdir(settings, ['project', 'list']);
    const sentence = 'RATE_LIMITS is not a setting and is ignored. Did you mean RATE_LIMIT?';
    expect({ code, stderr }).toEqual({ code: 0, stderr: `userdir: ${sentence}\n` });
    const logged = (await server.stop()).stderr.split('\n').filter((line) => line.includes('RATE_LIMITS'));
    expect(logged.map((line) => JSON.parse(line))).toEqual([expect.objectContaining({ level: 40, msg: sentence })]);
  },
);

test.runIf(inject('engine') === 'postgres')(
  'DATABASE_URL is read from a file, and errors do not show its password',
  async () => {
    await using database = await copyTemplate();
    const { env } = database;
    const dataDir = env['DATA_DIR'] ?? '';
    const file = join(dataDir, 'url');
    await writeFile(file, `${env['DATABASE_URL']}\n`);
    const settings = { DATA_DIR: dataDir, DATABASE_URL_FILE: file, NODE_ENV: 'production' };
    expect(await userdirJson(settings, ['project', 'list'])).toEqual([]);
    await writeFile(file, 'postgres://me:hush-hush@127.0.0.1:1/none');
    const refused = await userdir(settings, ['project', 'list']);
    expect(refused.code).toBe(1);
    expect(refused.stderr).not.toContain('hush-hush');
  },
);

test.runIf(inject('engine') === 'postgres')(
  'the schema that search_path names first has the tables, for every command and for requests',
  async () => {
    await using database = await createEmptyDatabase();
    const { env } = database;
    const url = new URL(env['DATABASE_URL'] ?? '');
    url.searchParams.set('options', '-csearch_path=s1');
    const settings = { ...env, DEMO: 'off', DATABASE_URL: url.href };
    for (const args of [['migrate'], ['project', 'create', '--name', 'Test'], ['serve']]) {
      const { code, stderr } = await userdir({ ...settings, PORT: '0' }, args);
      expect([code, stderr]).toEqual([1, expect.stringContaining('has no schema of its search_path, s1.')]);
    }
    const found = async () =>
      (await userdir(settings, ['doctor', '--no-totals', '--json'])).stdout.match(
        /"id":"schema","status":"(\w+)"/,
      )?.[1];
    expect(await found()).toBe('failed');
    await queryPostgres(env['DATABASE_URL'], 'CREATE SCHEMA s1');
    expect(await found()).toBe('passed');
    await userdirJson(settings, ['migrate']);
    const project: Credentials = await userdirJson(settings, ['project', 'create', '--name', 'Test']);
    const server = await startServer(settings);
    await recordLogin(server.url, project, { authMethod: 'passkey', authValue: 'one' });
    expect((await call(server.url, project, '/server/users')).body.result.total_user).toBe(1);
    expect((await server.stop()).code).toBe(0);
    const schemas = "SELECT DISTINCT schemaname FROM pg_tables WHERE tablename IN ('users', 'projects')";
    expect(await queryPostgres(env['DATABASE_URL'], schemas)).toEqual([{ schemaname: 's1' }]);
  },
);
