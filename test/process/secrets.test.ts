import { crc32 } from 'node:zlib';
import { expect, test } from 'vitest';
import type { Json } from '../support/app.js';
import { type Credentials, call, TIMESTAMP, useServer } from '../support/command.js';

/** The commands for the secrets of a project, while a server runs on the same database. */

const { url, run, runJson, createProject } = useServer();

const ALL = ['read', 'verify', 'write', 'changes'];
const listSecrets = ({ app_id }: Credentials): Promise<Json[]> => runJson('project', 'secrets', app_id);
const status = async ({ app_id }: Credentials, app_secret: string) =>
  (await call(url(), { app_id, app_secret }, '/server/users')).status;
/** The server accepts cached credentials for less than a second, which test/api/rotation.slow holds. */
const untilRefused = (project: Credentials, secret: string) => expect.poll(() => status(project, secret)).toBe(401);

/** The secret format that the README documents for secret scanners. */
const FORM = /\buds_[A-Za-z0-9_-]{43}[A-Za-z0-9]{6}\b/;

function hasRightChecksum(secret: string): boolean {
  const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
  const sum = [...secret.slice(-6)].reduce((value, digit) => value * 62 + digits.indexOf(digit), 0);
  return sum === crc32(secret.slice(0, -6));
}

test('a secret has a prefix and a checksum, and no two are equal', async () => {
  const project = await createProject();
  const made = [project.app_secret];
  for (const label of ['a', 'b']) {
    made.push((await runJson('project', 'add-secret', project.app_id, '--label', label)).app_secret);
  }
  made.push((await runJson('project', 'rotate', project.app_id)).app_secret);
  for (const secret of made) {
    expect(FORM.exec(`SECRET="${secret}"`)?.[0]).toBe(secret);
    expect(hasRightChecksum(secret)).toBe(true);
    expect(hasRightChecksum(secret.replace(/^uds_./, (start) => (start === 'uds_A' ? 'uds_B' : 'uds_A')))).toBe(false);
  }
  expect(new Set(made).size).toBe(4);
});

test('project secrets lists labels and the time of last use, and never the secrets', async () => {
  const project = await createProject();
  const fresh = {
    id: expect.any(Number),
    label: 'main',
    scopes: ALL,
    created_at: expect.stringMatching(TIMESTAMP),
    last_used_at: null,
    expires_at: null,
    live: true,
  };
  expect(await listSecrets(project)).toEqual([fresh]);
  const before = Date.now();
  expect(await status(project, project.app_secret)).toBe(200);
  await expect.poll(async () => (await listSecrets(project))[0].last_used_at).toMatch(TIMESTAMP);
  const [used] = await listSecrets(project);
  expect(Date.parse(used.last_used_at)).toBeGreaterThan(before - 5_000);
  // A request with a wrong secret does not count as use.
  expect(await status(project, `${project.app_secret}x`)).toBe(401);

  const shown = await run('project', 'secrets', project.app_id);
  expect(shown).toMatchObject({ code: 0, stderr: '' });
  expect(shown.stdout).toContain('read, verify, write, changes');
  expect(JSON.stringify([shown, used])).not.toContain('uds_');
});

test('project add-secret adds a secret with scopes and an expiry', async () => {
  const project = await createProject();
  const args = ['--label', 'Reports (Ada)', '--scope', 'verify,read', '--expires-in', '30d'];
  const added = await runJson('project', 'add-secret', project.app_id, ...args);
  expect(added).toEqual({
    app_id: project.app_id,
    app_secret: expect.stringMatching(FORM),
    id: expect.any(Number),
    label: 'Reports (Ada)',
    scopes: ['read', 'verify'],
    expires_at: expect.stringMatching(TIMESTAMP),
  });
  const left = Date.parse(added.expires_at) - Date.now();
  expect(left).toBeGreaterThan(30 * 86_400_000 - 60_000);
  expect(left).toBeLessThanOrEqual(30 * 86_400_000);
  expect(await status(project, added.app_secret)).toBe(200);
  expect(await status(project, project.app_secret)).toBe(200);
  expect(
    (await call(url(), { ...project, app_secret: added.app_secret }, '/server/users/1', { method: 'DELETE' })).status,
  ).toBe(401);

  const short = await runJson('project', 'add-secret', project.app_id, '--label', 'short', '--expires-in', '1s');
  await untilRefused(project, short.app_secret);
  // The label of an expired secret can be used again.
  expect((await runJson('project', 'add-secret', project.app_id, '--label', 'short')).expires_at).toBe(null);
});

test('a label that is empty, too long or reserved is refused, and an unknown scope too', async () => {
  const { app_id } = await createProject();
  const add = (...args: string[]) => run('project', 'add-secret', app_id, ...args);
  const refused = (sentence: string) => ({ code: 2, stdout: '', stderr: expect.stringContaining(sentence) });
  for (const label of ['', ' ', ' a', 'a\nb', 'operator', 'x'.repeat(65)])
    expect(await add('--label', label)).toMatchObject(refused('label: got'));
  expect((await add('--label', '✓'.repeat(64))).code).toBe(0);
  expect(await add()).toMatchObject({ code: 2, stdout: '' });
  for (const scope of ['', 'admin', 'read,'])
    expect(await add('--label', 'a', '--scope', scope)).toMatchObject(refused('read, verify, write, changes'));
});

test('project revoke ends one secret at once, and a second call changes nothing', async () => {
  const project = await createProject();
  const other = await runJson('project', 'add-secret', project.app_id, '--label', 'other');
  expect(await status(project, other.app_secret)).toBe(200);
  expect(await runJson('project', 'revoke', project.app_id, `${other.id}`)).toEqual({ id: other.id, label: 'other' });
  await untilRefused(project, other.app_secret);
  expect(await status(project, project.app_secret)).toBe(200);

  const [, ended] = await listSecrets(project);
  expect(ended).toMatchObject({ id: other.id, live: false, expires_at: expect.stringMatching(TIMESTAMP) });
  expect((await run('project', 'revoke', project.app_id, `${other.id}`)).code).toBe(0);
  expect((await listSecrets(project))[1]).toEqual(ended);
});

test('revoke refuses an id of another project', async () => {
  const [one, another] = [await createProject(), await createProject()];
  const [{ id }] = (await listSecrets(another)) as [Json];
  expect(await run('project', 'revoke', one.app_id, `${id}`)).toMatchObject({ code: 1, stdout: '' });
  expect(await status(another, another.app_secret)).toBe(200);
});

test('project rotate replaces the secrets of one label, keeps scopes and expiry, and names other labels', async () => {
  const project = await createProject();
  const reports = await runJson(
    ...['project', 'add-secret', project.app_id, '--label', 'reports', '--scope', 'read', '--expires-in', '7d'],
  );
  const rotated = await runJson('project', 'rotate', project.app_id, '--label', 'reports', '--overlap', '1h');
  expect(rotated).toEqual({
    app_id: project.app_id,
    app_secret: expect.stringMatching(FORM),
    previous_expires_at: expect.stringMatching(TIMESTAMP),
    id: expect.any(Number),
    label: 'reports',
    scopes: ['read'],
    expires_at: reports.expires_at,
    other_labels: ['main'],
  });
  expect(await status(project, reports.app_secret)).toBe(200);
  expect(await status(project, rotated.app_secret)).toBe(200);

  const shown = await run('project', 'rotate', project.app_id, '--label', 'reports');
  expect(shown.stdout).toContain('The old secret is no longer valid.\nStill valid: the secret labelled main.\n');
  await untilRefused(project, reports.app_secret);
  await untilRefused(project, rotated.app_secret);
  expect(await status(project, FORM.exec(shown.stdout)?.[0] ?? '')).toBe(200);
  expect(await status(project, project.app_secret)).toBe(200);
});

test('a project whose last secret was revoked gets a new one by rotation', async () => {
  const project = await createProject();
  const [{ id }] = (await listSecrets(project)) as [Json];
  await runJson('project', 'revoke', project.app_id, `${id}`);
  await untilRefused(project, project.app_secret);
  const { app_secret, expires_at } = await runJson('project', 'rotate', project.app_id);
  expect(expires_at).toBe(null);
  expect(await status(project, app_secret)).toBe(200);
});

test('concurrent rotations leave exactly one secret valid', async () => {
  const project = await createProject();
  const rotations = await Promise.all(Array.from({ length: 4 }, () => runJson('project', 'rotate', project.app_id)));
  expect((await listSecrets(project)).filter(({ live }) => live)).toHaveLength(1);
  const statuses = await Promise.all(rotations.map(({ app_secret }) => status(project, app_secret)));
  expect(statuses.toSorted()).toEqual([200, 401, 401, 401]);
});
