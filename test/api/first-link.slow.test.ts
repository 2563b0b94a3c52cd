import { beforeAll, describe, expect, test } from 'vitest';
import { Prisma } from '#dist/db/statements.js';
import { stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { verify } from '../support/rest.js';

/** When several users have one address, a verification without a user id names the user who linked it first. */

const app = useTestApp();
let project: TestProject;
let projectId: number;
beforeAll(async () => {
  project = await app.createProject();
  const { projects } = app.context.services;
  projectId = (await projects.getScope(project.appId)).projectIdFor('operate');
});

async function login(authValue: string, address?: string): Promise<string> {
  const accounts = address === undefined ? [] : [{ network: 'STELLAR', publicKey: address }];
  const { data } = await project.graphql(
    'mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { user { id } } }',
    { input: { authMethod: 'passkey', authValue, accounts } },
  );
  return data.recordLogin.user.id;
}

const remove = (id: string) => project.graphql(`mutation { deleteUser(id: ${id}) { id } }`);

/** The owner's id, after a check that REST and GraphQL agree. */
async function ownerOf(address: string, userId?: string): Promise<string | null> {
  const { body } = await verify(project, { address, ...(userId !== undefined && { user_id: Number(userId) }) });
  const pin = userId === undefined ? '' : `, userId: ${userId}`;
  const { data } = await project.graphql(`{ verifyWallet(address: "${address}"${pin}) { exists userId } }`);
  const { exists, userId: named } = data.verifyWallet as Json;
  expect([exists, named]).toEqual([body.result.exists, body.result.exists ? String(body.result.user_id) : null]);
  return named;
}

test('an older user who links the address later does not change the answer', async () => {
  const address = stellarAddress(1);
  const older = await login('older');
  const newer = await login('newer', address);
  expect(await ownerOf(address)).toBe(newer);
  await login('older', address);
  expect(await ownerOf(address)).toBe(newer);
  expect([await ownerOf(address, older), await ownerOf(address, newer)]).toEqual([older, newer]);
  // Another login with the same address does not link it again.
  await login('newer', address);
  expect(await ownerOf(address)).toBe(newer);

  await remove(newer);
  expect(await ownerOf(address)).toBe(older);
  expect(await ownerOf(address, newer)).toBeNull();
  // A user who registers again links the address again, and is now the later one.
  const again = await login('newer', address);
  expect(await ownerOf(address)).toBe(older);
  await remove(older);
  expect(await ownerOf(address)).toBe(again);
  await remove(again);
  expect(await ownerOf(address)).toBeNull();
});

describe('an address that thousands of users have linked', () => {
  const address = stellarAddress(2);
  let ids: string[];
  beforeAll(async () => {
    await app.context.db.query(Prisma.sql`
      WITH made AS (
        INSERT INTO users (project_id, auth_method, auth_value, auth_value_key)
        SELECT ${projectId}::int, 'passkey', 'crowd' || n, 'crowd' || n FROM generate_series(1, 5000) AS n
        RETURNING project_id, id
      )
      INSERT INTO accounts (project_id, user_id, network, public_key, address_key, wallet_type)
      SELECT project_id, id, 'stellar', ${address}, ${address}, 'custodial' FROM made ORDER BY id DESC`);
    const linked = await app.context.db.query<{ id: number }>(Prisma.sql`
      SELECT user_id AS id FROM accounts WHERE project_id = ${projectId} AND address_key = ${address} ORDER BY accounts.id`);
    ids = linked.map(({ id }) => String(id));
  });
  const removeFirst = (count: number) =>
    app.context.db.query(Prisma.sql`
      UPDATE users SET deleted_at = now()
      WHERE project_id = ${projectId} AND id = ANY (${ids.slice(0, count).map(BigInt)}::bigint[])`);
  const statements = async (work: () => Promise<unknown>) => {
    app.statements.length = 0;
    await work();
    return app.statements.filter((sql) => /FROM accounts a/.test(sql)).length;
  };

  test.each([
    [0, 1],
    [7, 1],
    [8, 2],
    [9, 2],
    [2_008, 3],
    [4_999, 4],
  ])('gives its first remaining user after the first %i are removed, in %i statements', async (removed, most) => {
    await removeFirst(removed);
    expect(await ownerOf(address)).toBe(ids[removed]);
    expect(await statements(() => verify(project, { address }))).toBe(most);
    expect(await ownerOf(address, ids[4_999] as string)).toBe(ids[4_999]);
    expect(await statements(() => verify(project, { address, user_id: Number(ids[4_999]) }))).toBe(1);
  });

  test('has no owner after all users are removed, and then belongs to the next user who links it', async () => {
    await removeFirst(5_000);
    expect(await ownerOf(address)).toBeNull();
    const next = await login('next', address);
    expect(await ownerOf(address)).toBe(next);
  });

  test('is searched once for all simultaneous requests, and does not delay another project', async () => {
    const { projects, wallets } = app.context.services;
    const other = await app.createProject();
    const [mine, theirs] = [await projects.getScope(project.appId), await projects.getScope(other.appId)];
    const key = { key: address } as never;
    app.statements.length = 0;
    const crowd = Array.from({ length: 50 }, () => wallets.findOwner(mine, { address: key, userId: null }));
    expect(await wallets.findOwner(theirs, { address: key, userId: null })).toBeNull();
    expect(app.statements).toHaveLength(1);
    const owners = await Promise.all(crowd);
    expect(new Set(owners.map((owner) => owner?.userId)).size).toBe(1);
    expect(app.statements).toHaveLength(1 + 3);
  });
});
