import { beforeAll, describe, expect, test } from 'vitest';
import { MAX_NOTES } from '#dist/domain/notes.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { logIn, type TestOperator } from '../support/dashboard.js';
import { codesOf } from '../support/graphql.js';

/** Notes of operators on a user. */
const app = useTestApp();
let admin: TestOperator;
let support: TestOperator;
let other: TestOperator;
let viewer: TestOperator;
beforeAll(async () => {
  admin = await logIn(app, 'admin');
  [support, other, viewer] = [await logIn(app, 'support'), await logIn(app, 'support'), await logIn(app, 'viewer')];
});

const ADD = `mutation ($appId: ID!, $userId: ID!, $note: String!) {
  addUserNote(appId: $appId, userId: $userId, note: $note) { id at actor note removable } }`;
const REMOVE = `mutation ($appId: ID!, $userId: ID!, $noteId: ID!) {
  removeUserNote(appId: $appId, userId: $userId, noteId: $noteId) }`;
const LIST = `query ($appId: ID!, $userId: ID!, $first: Int! = 100) {
  project(appId: $appId) { user(id: $userId) { notes(first: $first) { id at actor note removable } } } }`;

interface OfUser {
  readonly project: TestProject;
  readonly appId: string;
  readonly userId: string;
}

async function createUser(email = 'ada@example.com'): Promise<OfUser> {
  const project = await app.createProject();
  await project.addUsers({ auth_method: 'email', auth_value: email });
  const { data } = await project.graphql('{ users(first: 1) { nodes { id } } }');
  return { project, appId: project.appId, userId: data.users.nodes[0].id };
}

const add = async (who: TestOperator, { appId, userId }: OfUser, note: string): Promise<Json> =>
  (await who.ask(ADD, { appId, userId, note })).addUserNote;
const tryToAdd = (who: TestOperator, { appId, userId }: OfUser, note: string) =>
  who.graphql(ADD, { appId, userId, note });
const remove = (who: TestOperator, { appId, userId }: OfUser, noteId: string) =>
  who.graphql(REMOVE, { appId, userId, noteId });
const list = async (who: TestOperator, { appId, userId }: OfUser, first = 100): Promise<Json[]> =>
  (await who.ask(LIST, { appId, userId, first })).project.user.notes;
const texts = async (of: OfUser) => (await list(viewer, of)).map(({ note }) => note);
const sql = async (text: string, ...values: unknown[]): Promise<Json[]> =>
  (await app.context.db.pool.query(text, values)).rows;
const ofProject = `project_id = (SELECT id FROM projects WHERE app_id = $1)`;
const trail = ({ appId }: OfUser) =>
  sql(
    `SELECT actor, action::text, user_id::text AS "userId", details, request_id IS NOT NULL AS "isOfRequest" FROM audit_log
     WHERE ${ofProject} AND action::text LIKE '%note' ORDER BY id`,
    appId,
  );

test('notes are listed newest first, with who wrote them and when', async () => {
  const of = await createUser();
  expect(await list(viewer, of)).toEqual([]);
  const first = await add(support, of, '  Called about\r\nthe invoice.\n ');
  expect(first).toEqual({
    id: expect.stringMatching(/^\d+$/),
    at: expect.stringMatching(/^\d{4}-.*Z$/),
    actor: `operator:${support.name}`,
    note: 'Called about\nthe invoice.',
    removable: true,
  });
  expect(Math.abs(Date.parse(first.at) - Date.now())).toBeLessThan(600_000);
  const second = await add(admin, of, 'Paid.');
  expect(await list(admin, of)).toEqual([second, first]);
  expect(await list(admin, of, 1)).toEqual([second]);
  expect((await viewer.graphql(LIST, { ...of, project: undefined, first: 101 })).errors).toMatchObject([
    { message: expect.stringContaining('from 1 to 100') },
  ]);
});

test('support removes notes of their own, an admin all, a viewer none', async () => {
  const of = await createUser();
  const [own, foreign] = [await add(support, of, 'Mine'), await add(other, of, 'Of another')];
  const removable = async (who: TestOperator) => (await list(who, of)).map((note) => note.removable);
  expect(await removable(viewer)).toEqual([false, false]);
  expect(await removable(support)).toEqual([false, true]);
  expect(await removable(admin)).toEqual([true, true]);
  expect(codesOf(await tryToAdd(viewer, of, 'x'))).toEqual(['FORBIDDEN']);
  expect(codesOf(await remove(viewer, of, own.id))).toEqual(['FORBIDDEN']);
  expect(codesOf(await remove(support, of, foreign.id))).toEqual(['FORBIDDEN']);
  expect(await texts(of)).toEqual(['Of another', 'Mine']);
  expect((await remove(support, of, own.id)).data).toEqual({ removeUserNote: true });
  expect(codesOf(await remove(support, of, own.id))).toEqual(['NOT_FOUND']);
  expect((await remove(admin, of, foreign.id)).data).toEqual({ removeUserNote: true });
  expect(await texts(of)).toEqual([]);
  const refused = await sql(
    `SELECT actor, details->>'refused' AS refused FROM audit_log WHERE ${ofProject} AND action = 'refuse' ORDER BY id`,
    of.appId,
  );
  expect(refused).toEqual([
    { actor: `operator:${viewer.name}`, refused: 'addUserNote' },
    { actor: `operator:${viewer.name}`, refused: 'removeUserNote' },
    { actor: `operator:${support.name}`, refused: 'removeUserNote' },
  ]);
});

test('each is audited with the user, and without the text', async () => {
  const of = await createUser();
  const { id } = await add(support, of, 'Secret words');
  await remove(admin, of, id);
  const entry = { userId: of.userId, details: { note: Number(id) }, isOfRequest: true };
  expect(await trail(of)).toEqual([
    { actor: `operator:${support.name}`, action: 'add_note', ...entry },
    { actor: `operator:${admin.name}`, action: 'remove_note', ...entry },
  ]);
  const shown = await viewer.ask(
    'query ($appId: ID!, $userId: ID!) { project(appId: $appId) { user(id: $userId) { audit { nodes { words } } } } }',
    { appId: of.appId, userId: of.userId },
  );
  expect(shown.project.user.audit.nodes).toEqual([
    { words: 'removed a note on a user' },
    { words: 'added a note on a user' },
  ]);
});

describe('a text', () => {
  test.each([
    ['of 2,000 characters', 'x'.repeat(2_000)],
    ['of 2,000 characters that take three bytes', '漢'.repeat(2_000)],
    ['of several lines, with tabs and emoji', 'a\n\n\tb 👩‍💻'],
    ['that looks like markup or SQL', `<b>x</b> '; DROP TABLE users; -- $1 \\`],
  ])('%s is kept as it is', async (_what, note) => {
    const of = await createUser();
    expect((await add(support, of, note)).note).toBe(note);
    expect(await texts(of)).toEqual([note]);
  });

  test.each([
    ['empty', ''],
    ['blank', ' \n\t '],
    ['too long', 'x'.repeat(2_001)],
    ['far too long', 'x'.repeat(100_000)],
    ['with U+0000', 'a\0b'],
    ['with a control character', 'a\u001b[31mb'],
    ['with half of a surrogate pair', 'a\ud800b'],
  ])('that is %s is refused before the database is asked for the user, and not repeated', async (_what, note) => {
    const of = await createUser();
    const before = app.statements.length;
    const answer = await tryToAdd(support, { ...of, userId: '999999999' }, note);
    expect(answer.errors).toMatchObject([{ message: expect.stringMatching(/note.*expected/) }]);
    expect(JSON.stringify(answer.errors)).not.toContain('xxx');
    expect(app.statements.slice(before).filter((text) => /user_notes|FROM users/.test(text))).toEqual([]);
    expect(await texts(of)).toEqual([]);
  });
});

test('a user has at most 100 notes, also where many are added at the same moment', async () => {
  const of = await createUser();
  await sql(
    `INSERT INTO user_notes (project_id, user_id, actor, note)
     SELECT project_id, id, 'operator:x', 'Note ' || n FROM users, generate_series(1, ${MAX_NOTES - 3}) n WHERE ${ofProject}`,
    of.appId,
  );
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, n) => tryToAdd([support, other][n % 2] ?? admin, of, `New ${n}`)),
  );
  const refused = answers.filter(({ errors }) => errors !== undefined);
  expect(refused.map((answer) => codesOf(answer)[0])).toEqual(Array(5).fill('CONFLICT'));
  expect(refused[0]?.errors?.[0]?.message).toContain('100 notes');
  const kept = await list(admin, of);
  expect(kept).toHaveLength(MAX_NOTES);
  expect(await trail(of)).toHaveLength(3);
  await remove(admin, of, kept[0]?.id);
  expect((await add(support, of, 'There is room again.')).note).toBe('There is room again.');
});

test('notes stay while their user is removed and restored, and are erased with the user', async () => {
  const of = await createUser();
  const { users, projects } = app.context.services;
  await add(support, of, 'Before');
  await of.project.rest(`/server/users/${of.userId}`, { method: 'DELETE' });
  await add(support, of, 'Removed');
  expect(await texts(of)).toEqual(['Removed', 'Before']);
  const scope = await projects.getScope(of.appId);
  await users.restoreUser(scope, BigInt(of.userId));
  expect(await texts(of)).toEqual(['Removed', 'Before']);
  await of.project.rest(`/server/users/${of.userId}`, { method: 'DELETE' });
  expect(await users.purgeRemoved(scope, 0, () => undefined)).toBe(1);
  expect(await sql(`SELECT 1 FROM user_notes WHERE ${ofProject}`, of.appId)).toEqual([]);
  expect(codesOf(await tryToAdd(support, of, 'Too late'))).toEqual(['NOT_FOUND']);
  // What remains tells of no text.
  expect((await trail(of)).map(({ action }) => action)).toEqual(['add_note', 'add_note']);
});

test('they go with their project', async () => {
  const of = await createUser();
  await add(support, of, 'x');
  const [{ id }] = await sql('SELECT id FROM projects WHERE app_id = $1', of.appId);
  await admin.ask('mutation ($appId: ID!) { deleteProject(appId: $appId, name: "Test") }', { appId: of.appId });
  await expect.poll(() => sql('SELECT 1 FROM user_notes WHERE project_id = $1', id), { timeout: 30_000 }).toEqual([]);
});

test('those of another project, or of another user, are as none', async () => {
  const [of, foreign] = [await createUser(), await createUser()];
  const { id } = await add(support, foreign, 'Theirs');
  const crossed = { ...of, userId: foreign.userId };
  expect(codesOf(await tryToAdd(admin, crossed, 'x'))).toEqual(['NOT_FOUND']);
  expect(codesOf(await remove(admin, crossed, id))).toEqual(['NOT_FOUND']);
  expect(codesOf(await remove(admin, of, id))).toEqual(['NOT_FOUND']);
  await of.project.addUsers({ auth_method: 'email', auth_value: 'eve@example.com' });
  const [second] = (await of.project.graphql('{ users(first: 1) { nodes { id } } }')).data.users.nodes;
  const note = await add(support, of, 'Of the first');
  expect(codesOf(await remove(admin, { ...of, userId: second.id }, note.id))).toEqual(['NOT_FOUND']);
  expect([await texts(of), await texts(foreign)]).toEqual([['Of the first'], ['Theirs']]);
});

test.each(['0', '-1', 'x', '9'.repeat(30)])('the user %s and the note %s do not exist', async (bad) => {
  const of = await createUser();
  const { id } = await add(support, of, 'x');
  const expected = [/^9/.test(bad) ? 'NOT_FOUND' : 'BAD_USER_INPUT'];
  expect(codesOf(await tryToAdd(support, { ...of, userId: bad }, 'x'))).toEqual(expected);
  expect(codesOf(await remove(support, of, bad))).toEqual(expected);
  expect(codesOf(await remove(support, { ...of, userId: bad }, id))).toEqual(expected);
});

test('no feed, export or interface for backends has them', async () => {
  const of = await createUser();
  const changes = () => sql(`SELECT id FROM changes WHERE ${ofProject}`, of.appId);
  const before = await changes();
  const WORDS = 'Only for operators';
  await add(support, of, WORDS);
  expect(await changes()).toEqual(before);
  for (const format of ['ndjson', 'csv'])
    for (const what of ['export', 'audit']) {
      const response = await admin.fetch(`/dashboard/projects/${of.appId}/${what}?format=${format}`);
      const text = await response.text();
      expect([what, response.status, text.includes(WORDS)]).toEqual([what, 200, false]);
    }
  expect(JSON.stringify((await of.project.rest(`/server/users/${of.userId}`)).body)).not.toContain(WORDS);
});
