import { describe, expect, test } from 'vitest';
import { TIMESTAMP, useServer } from '../support/command.js';

describe('notes on a user', () => {
  const { run, runJson, runWith, createProject } = useServer();

  async function createUser() {
    const { app_id } = await createProject();
    await runWith('{"auth_method":"email","auth_value":"ada@example.com"}\n', 'user', 'import', '--project', app_id);
    const [{ id }] = await runJson('user', 'search', '--project', app_id, 'ada@example.com');
    const of = ['--project', app_id, String(id)];
    return { app_id, id, of };
  }

  test('are added, listed newest first and removed', async () => {
    const { app_id, id, of } = await createUser();
    expect(await run('user', 'notes', ...of)).toMatchObject({ code: 0, stdout: 'The user has no notes.\n' });
    const first = await runJson('user', 'note', ...of, '--add', ' Called about\nthe invoice. ');
    expect(first).toEqual({
      id: expect.any(Number),
      at: expect.stringMatching(TIMESTAMP),
      actor: 'operator:tester',
      note: 'Called about\nthe invoice.',
    });
    const added = await run('user', 'note', ...of, '--add', 'Paid.');
    expect(added).toMatchObject({ code: 0, stdout: expect.stringMatching(`^User ${id} has the note \\d+\\.\n$`) });
    expect(await runJson('user', 'notes', ...of)).toEqual([expect.objectContaining({ note: 'Paid.' }), first]);
    const shown = await run('user', 'notes', ...of);
    expect(shown.stdout).toMatch(
      /^ID +At +Who +Note\n *\d+ +\S+ +operator:tester +Paid\.\n *\d+ +\S+ +operator:tester +Called about the invoice\.\n$/,
    );
    const removed = await run('user', 'note', ...of, '--remove', String(first.id));
    expect(removed).toMatchObject({ code: 0, stdout: `Removed the note ${first.id} of user ${id}.\n` });
    expect(await run('user', 'note', ...of, '--remove', String(first.id))).toMatchObject({
      code: 1,
      stderr: `userdir: The user has no note ${first.id}.\n`,
    });
    const entries = await runJson('audit', '--project', app_id);
    expect(entries.slice(-3)).toMatchObject([
      { action: 'add_note', user_id: id, details: { note: first.id } },
      { action: 'add_note', user_id: id },
      { action: 'remove_note', user_id: id, actor: 'operator:tester' },
    ]);
    const exported = await run('user', 'export', '--project', app_id);
    expect([exported.code, exported.stdout.includes('Paid')]).toEqual([0, false]);
  });

  test.each<[what: string, code: number, words: string, ...args: string[]]>([
    ['neither', 2, 'give either --add or --remove'],
    ['both', 2, 'give either --add or --remove', '--add', 'x', '--remove', '1'],
    ['a note without a text', 1, 'expected 1 to 2000 that are not all blank', '--add', ' '],
    ['a note that is too long', 1, 'note: got 2001 characters', '--add', 'x'.repeat(2_001)],
    ['an ID that is none', 2, 'Expected a whole number', '--remove', 'x'],
  ])('%s is refused', async (_what, code, words, ...args) => {
    const { of } = await createUser();
    expect(await run('user', 'note', ...of, ...args)).toMatchObject({ code, stderr: expect.stringContaining(words) });
    expect(await runJson('user', 'notes', ...of)).toEqual([]);
  });

  test('a user who does not exist has none, and gets none', async () => {
    const { app_id } = await createUser();
    const failure = { code: 1, stderr: expect.stringContaining('There is no user 999999') };
    expect(await run('user', 'notes', '--project', app_id, '999999')).toMatchObject(failure);
    expect(await run('user', 'note', '--project', app_id, '999999', '--add', 'x')).toMatchObject(failure);
  });
});
