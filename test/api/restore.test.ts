import { expect, test } from 'vitest';
import { ethereumAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';

/** Removed users, made current again. */

const app = useTestApp();
const scopeOf = ({ appId }: TestProject) => app.context.services.projects.getScope(appId);
const restore = async (project: TestProject, id: number) =>
  app.context.services.identities.restore(await scopeOf(project), BigInt(id));
const remove = (project: TestProject, id: number) => project.rest(`/server/users/${id}`, { method: 'DELETE' });
const ada = { auth_method: 'email', auth_value: 'Ada@example.com' };

/** A project with the user Ada, and her. */
async function createAda(): Promise<[TestProject, Json]> {
  const project = await app.createProject();
  const account = { network: 'ethereum', public_key: ethereumAddress(7) };
  await project.addUsers({ ...ada, login_count: 3, accounts: [account] });
  const { body } = await project.rest('/server/users');
  return [project, body.result.users[0]];
}

/** Whether the tallies agree with a count, before and after they are folded. */
async function requireExact(project: TestProject, total: number): Promise<void> {
  const { totals } = app.context.services;
  const scope = await scopeOf(project);
  for (let time = 0; time < 2; time += 1) {
    expect(await totals.check(scope)).toEqual([]);
    expect((await project.rest('/server/users/count')).body.result.total_user).toBe(total);
    await totals.fold(scope);
  }
}

test('a restored user is as they were, in every list and total', async () => {
  const [project, user] = await createAda();
  expect((await remove(project, user.id)).status).toBe(200);
  await requireExact(project, 0);
  await restore(project, user.id);
  await requireExact(project, 1);
  expect((await project.rest(`/server/users/${user.id}`)).body.result).toEqual(user);
  expect((await project.rest('/server/users?login_method=email')).body.result.users).toEqual([user]);
  const body = JSON.stringify({ address: ethereumAddress(7) });
  const headers = { 'content-type': 'application/json' };
  const verified = await project.rest('/server/wallets/verify', { method: 'POST', body, headers });
  expect(verified.body.result).toMatchObject({ exists: true, user_id: user.id });
  // The removal and the restoration are recorded, and the login continues the history.
  const trail = await app.context.services.audit.listEntries(await scopeOf(project), null, 10);
  expect(trail.slice(-2)).toMatchObject([
    { action: 'remove', userId: user.id },
    { action: 'restore', actor: 'operator', userId: user.id },
  ]);
  const { data } = await project.graphql(
    'mutation { recordLogin(input: { authMethod: "email", authValue: "ada@example.com" }) { created user { id loginCount } } }',
  );
  expect(data.recordLogin).toEqual({ created: false, user: { id: String(user.id), loginCount: 4 } });
});

test('a user is not restored whose identity has registered again, who is current, unknown, of another project or erased', async () => {
  const [project, user] = await createAda();
  const [other] = await createAda();
  await expect(restore(project, user.id)).rejects.toMatchObject({
    code: 'CONFLICT',
    message: `User ${user.id} is not removed.`,
  });
  await remove(project, user.id);
  await expect(restore(other, user.id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  await project.addUsers({ ...ada, auth_value: 'ADA@example.com' });
  const [again] = (await project.rest('/server/users')).body.result.users;
  await expect(restore(project, user.id)).rejects.toMatchObject({
    code: 'CONFLICT',
    message: `User ${user.id} cannot be restored: an identity by email is that of user ${again.id} now. Remove that user first.`,
  });
  await requireExact(project, 1);
  await remove(project, again.id);
  await restore(project, user.id);
  await requireExact(project, 1);
  await remove(project, user.id);
  await app.context.services.users.purgeRemoved(await scopeOf(project), 0);
  await expect(restore(project, user.id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  await expect(restore(project, Number.MAX_SAFE_INTEGER)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  const trail = await app.context.services.audit.listEntries(await scopeOf(project), null, 20);
  expect(trail.filter(({ action }) => action === 'restore')).toHaveLength(1);
});

test('of restorations and registrations at the same time, one identity remains one user', async () => {
  const [project, user] = await createAda();
  for (let time = 0; time < 10; time += 1) {
    await remove(project, (await project.rest('/server/users')).body.result.users[0].id);
    const mutation =
      'mutation { recordLogin(input: { authMethod: "email", authValue: "ada@example.com" }) { user { id } } }';
    const [restored, again, login] = await Promise.allSettled([
      restore(project, user.id),
      restore(project, user.id),
      project.graphql(mutation),
    ]);
    expect([restored.status, again.status]).not.toEqual(['fulfilled', 'fulfilled']);
    for (const each of [restored, again])
      if (each.status === 'rejected') expect(each.reason).toMatchObject({ code: 'CONFLICT' });
    expect(login).toMatchObject({ value: { errors: undefined } });
    await requireExact(project, 1);
  }
});

test('a backend restores a user, once for a key', async () => {
  const [project, user] = await createAda();
  const document = `mutation ($id: ID!, $key: String = null) {
    restoreUser(id: $id, idempotencyKey: $key) { user { id loginCount accounts { publicKey } } }
  }`;
  const run = (key: string | null, id = user.id) => project.graphql(document, { id, key });
  const removed = await project.graphql(`mutation { deleteUser(id: ${user.id}) { id deletedUserId } }`);
  expect(removed.data.deleteUser).toEqual({ id: String(user.id), deletedUserId: String(user.id) });
  const answers = await Promise.all(Array.from({ length: 5 }, () => run('restore-1')));
  const accounts = [{ publicKey: ethereumAddress(7) }];
  for (const { data, errors } of answers)
    expect({ data, errors }).toEqual({
      data: { restoreUser: { user: { id: String(user.id), loginCount: 3, accounts } } },
      errors: undefined,
    });
  expect((await run(null)).errors?.[0]).toMatchObject({
    message: `User ${user.id} is not removed.`,
    extensions: { code: 'CONFLICT' },
  });
  expect((await run(null, 999_999)).errors?.[0]?.extensions.code).toBe('NOT_FOUND');
  expect((await run('restore-1', 999_999)).errors?.[0]?.extensions.code).toBe('IDEMPOTENCY_KEY_REUSED');
  const trail = await app.context.services.audit.listEntries(await scopeOf(project), null, 10);
  expect(trail.filter(({ action }) => action === 'restore')).toMatchObject([{ actor: 'main', userId: user.id }]);
});
