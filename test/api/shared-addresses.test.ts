import { beforeAll, describe, expect, test } from 'vitest';
import { ethereumAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { jsonPost } from '../support/rest.js';

/**
 * An address that many users have had, of whom only some are current. A verdict and a search read a few of them at first, and then more: who is
 * far behind the others is found all the same, and where nobody is left, nobody is.
 */

const app = useTestApp();
let project: TestProject;
let projectId: number;

beforeAll(async () => {
  project = await app.createProject();
  projectId = (await app.context.services.projects.getScope(project.appId)).projectIdFor('operate');
});

/** An address, and the IDs of the users who have it: removed ones, and current ones who had it after them. */
interface Shared {
  readonly address: string;
  readonly removed: readonly number[];
  readonly current: readonly number[];
}

let addresses = 0;

async function share(removed: number, current: number): Promise<Shared> {
  addresses += 1;
  const address = ethereumAddress(1_000 + addresses);
  const { pool } = app.context.db;
  await pool.query(
    `INSERT INTO users (project_id, auth_method, auth_value, auth_value_key, deleted_at)
     SELECT $1::int, 'google', $2::text || n, $2::text || n, CASE WHEN n <= $3::int THEN now() END
     FROM generate_series(1, $3::int + $4::int) AS n ORDER BY n`,
    [projectId, address, removed, current],
  );
  const { rows } = await pool.query(
    `INSERT INTO accounts (project_id, user_id, network, public_key, address_key, wallet_type)
     SELECT project_id, id, 'ethereum', $2::text, $2::text, 'custodial' FROM users
     WHERE project_id = $1::int AND auth_method = 'google' AND starts_with(auth_value_key, $2::text) ORDER BY id
     RETURNING user_id`,
    [projectId, address],
  );
  const ids = rows.map(({ user_id }) => Number(user_id));
  return { address, removed: ids.slice(0, removed), current: ids.slice(removed) };
}

const verify = async (wallet: Json) => (await project.rest('/server/wallets/verify', jsonPost(wallet))).body.result;
const verifyMany = async (wallets: readonly Json[]) =>
  (await project.rest('/wallets/verify', jsonPost({ wallets }))).body.result;
const search = async (address: string): Promise<number[]> =>
  (await project.rest(`/server/users/search?address=${address}`)).body.result.users.map(({ id }: Json) => id);

/** Around the eight that a verdict and a search read at first, and the 2,000 that each later statement reads. */
const REMOVED = [0, 7, 8, 9, 16, 2_007, 2_008];

describe.each(REMOVED)('after %i users who were removed', (removed) => {
  test.each([0, 1, 10])('%i current ones are found', async (current) => {
    const { address, ...ids } = await share(removed, current);
    const owner = ids.current[0];
    expect(await verify({ address })).toMatchObject({ exists: current > 0, ...(owner && { user_id: owner }) });
    for (const userId of [...ids.current.slice(-1), ...ids.removed.slice(-1)]) {
      expect(await verify({ address, user_id: userId })).toMatchObject({ exists: ids.current.includes(userId) });
    }
    expect(await search(address)).toEqual([...ids.current].sort((a, b) => b - a));
  });
});

test('many verdicts at once are those of each alone', async () => {
  const all: Shared[] = [];
  for (const removed of [0, 7, 8, 9, 40]) for (const current of [0, 1]) all.push(await share(removed, current));
  const { verdicts } = await verifyMany(all.map(({ address }) => ({ address })));
  expect(verdicts.map(({ user_id = null }: Json) => user_id)).toEqual(all.map(({ current: [id = null] }) => id));
});
