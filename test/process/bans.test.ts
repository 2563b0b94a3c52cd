import { describe, expect, test, vi } from 'vitest';
import type { Json } from '../support/app.js';
import { type Credentials, recordLogin, TIMESTAMP, useServer } from '../support/command.js';

const FOREVER = { created_at: expect.stringMatching(TIMESTAMP), reason: null, expires_at: null };

describe('bans', () => {
  const { url, run, runJson, runWith, createProject } = useServer();
  const ban = (project: Credentials, method: string, value: string) =>
    runJson('user', 'ban', '--project', project.app_id, '--method', method, '--value', value);
  const bansOf = (project: Credentials): Promise<Json> => runJson('user', 'bans', '--project', project.app_id);
  const importLines = (project: Credentials, lines: string, ...args: string[]) =>
    runWith(lines, 'user', 'import', '--project', project.app_id, ...args);
  const login = async (project: Credentials, authValue: string) =>
    (await recordLogin(url(), project, { authMethod: 'email', authValue })).body.errors?.[0].extensions.code ?? 'done';
  const imports = async (project: Credentials) =>
    (await runJson('audit', '--project', project.app_id)).filter(({ action }: Json) => action === 'import');

  test('are listed oldest first, with the values that were given', async () => {
    const [one, other] = [await createProject(), await createProject()];
    const none = await run('user', 'bans', '--project', one.app_id);
    expect(none).toMatchObject({ code: 0, stdout: 'No identity is banned.\n' });
    await ban(one, 'email', 'Eve@Example.com');
    await ban(one, 'google', 'g-1');
    await ban(other, 'email', 'mallory@example.com');
    const listed = await bansOf(one);
    expect(listed).toEqual([
      { auth_method: 'email', auth_value: 'Eve@Example.com', ...FOREVER },
      { auth_method: 'google', auth_value: 'g-1', ...FOREVER },
    ]);
    const shown = await run('user', 'bans', '--project', one.app_id);
    expect(shown.stdout).toMatch(/^Method +Value +Since\nemail +Eve@Example.com +\S+\ngoogle +g-1 +\S+\n$/);
    expect(await run('user', 'bans', '--project', 'app_none')).toMatchObject({ code: 1 });
  });

  test('have a reason and an end, from which on they let in', async () => {
    const one = await createProject();
    const set = (value: string, ...terms: string[]) =>
      run('user', 'ban', '--project', one.app_id, '--method', 'email', '--value', value, ...terms);
    for (const bad of [
      ['--until', '2026-01-01'],
      ['--until', 'x'],
      ['--reason', 'x'.repeat(501)],
    ] as const)
      expect(await set('eve@example.com', ...bad)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining(bad[0].slice(2)),
      });
    const until = new Date(Date.now() + 3_600_000).toISOString();
    expect(await set('eve@example.com', '--reason', 'spam', '--until', until)).toMatchObject({
      ...{ code: 0, stdout: `email eve@example.com is banned until ${until}.\n` },
    });
    expect(await bansOf(one)).toMatchObject([{ auth_value: 'eve@example.com', reason: 'spam', expires_at: until }]);
    // What is not given stays; an empty text takes it away.
    for (const [terms, reason, expires_at] of [
      [['--reason', 'fraud'], 'fraud', until],
      [['--until', ''], 'fraud', null],
      [['--reason', '', '--until', until], null, until],
    ] as const) {
      expect(await set('eve@example.com', ...terms)).toMatchObject({ code: 0 });
      expect(await bansOf(one)).toMatchObject([{ reason, expires_at }]);
    }
    // A command begins within that time on a busy machine, too.
    const soon = new Date(Date.now() + 3_000).toISOString();
    expect(await set('eve@example.com', '--until', soon)).toMatchObject({ code: 0 });
    await vi.waitFor(async () => expect(await login(one, 'eve@example.com')).toBe('done'), 30_000);
  });

  test('are imported all or none, together with the users of the file', async () => {
    const project = await createProject();
    const lines = [
      '{"ban":{"auth_method":"email","auth_value":"eve@example.com"}}',
      '{"ban":{"auth_method":"email","auth_value":"EVE@example.com","created_at":"2026-01-01"}}',
      '{"ban":{"auth_method":"email","auth_value":"no email"}}',
      '{"ban":{"auth_method":"email","auth_value":"a@example.com","why":"x"}}',
      '{"ban":{"auth_method":"email","auth_value":"a@example.com"},"email":"a@example.com"}',
      '{"ban":null}',
    ].join('\n');
    const refused = await importLines(project, lines, '--json');
    expect(refused.code).toBe(1);
    expect(JSON.parse(refused.stdout)).toMatchObject({ imported: 0, failed: 4, bans: 0 });
    expect(JSON.parse(refused.stdout).errors).toEqual([
      { line: 3, error: expect.stringContaining('auth_value: got') },
      { line: 4, error: 'Unknown field "why"; known are auth_method, auth_value, created_at, reason, expires_at.' },
      { line: 5, error: 'Unknown field "email"; known are ban, alone on its line.' },
      { line: 6, error: 'ban: got null, expected a JSON object.' },
    ]);
    expect(await bansOf(project)).toEqual([]);
    const taken = await importLines(project, lines, '--skip-invalid');
    expect(taken).toMatchObject({ code: 0, stdout: expect.stringContaining('failed 4. Added 1 ban.\n') });
    expect(taken.stdout).toContain('5 lines skipped: 4 failed, 1 is of an identity that is banned already.\n');
    expect(await bansOf(project)).toMatchObject([{ auth_value: 'eve@example.com' }]);
    expect((await imports(project)).map(({ details }: Json) => details)).toEqual([
      { imported: 0, skipped: 0, failed: 4 },
      { imported: 0, skipped: 0, failed: 4, bans: 1, bans_kept: 1 },
    ]);
  });
});
