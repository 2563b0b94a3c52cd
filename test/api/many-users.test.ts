import { beforeEach, expect, test } from 'vitest';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { codesOf } from '../support/graphql.js';

/** Changes of several users at once. */

const app = useTestApp();
let project: TestProject;
let ids: string[];
beforeEach(async () => {
  project = await app.createProject();
  ids = await addUsers(4);
});

const NOBODY = '99999999999999999999';
const REMOVE = `mutation ($ids: [ID!]!, $key: String = null) {
  removeUsers(ids: $ids, idempotencyKey: $key) { outcomes { id ok code message } }
}`;
const BAN = `mutation ($ids: [ID!]!, $reason: String = null, $expiresAt: String = null, $untilLifted: Boolean = null, $key: String = null) {
  banUsers(ids: $ids, reason: $reason, expiresAt: $expiresAt, untilLifted: $untilLifted, idempotencyKey: $key) {
    outcomes { id ok code message }
  }
}`;

async function addUsers(count: number, from = 0): Promise<string[]> {
  await project.addUsers(
    ...Array.from({ length: count }, (_, n) => ({ auth_method: 'google', auth_value: `g-${from + n}` })),
  );
  const { data } = await project.graphql('{ users(first: 100) { nodes { id } } }');
  return data.users.nodes
    .map(({ id }: Json) => id)
    .toSorted((one: string, other: string) => Number(one) - Number(other));
}
async function outcomes(document: string, variables: Json): Promise<Json[]> {
  const { data, errors } = await project.graphql(document, variables);
  expect(errors).toBeUndefined();
  return (Object.values(data as Json)[0] as Json).outcomes;
}
const done = (id: string | undefined) => ({ id, ok: true, code: null, message: null });
const notFound = (id: string | undefined) => ({
  id,
  ok: false,
  code: 'NOT_FOUND',
  message: `There is no user ${id} in this project.`,
});
const current = async (): Promise<string[]> => {
  const { data } = await project.graphql('{ users { nodes { id } totalCount } }');
  expect(data.users.totalCount).toBe(data.users.nodes.length);
  return data.users.nodes.map(({ id }: Json) => id).toSorted();
};
const changesOf = async (type: string): Promise<string[]> => {
  const { data } = await project.graphql('{ changes(first: 1000) { nodes { type userId } } }');
  return data.changes.nodes.flatMap((change: Json) => (change.type === type ? change.userId : []));
};
const trailOf = async (action: string): Promise<number[]> =>
  (
    await app.context.db.pool.query(
      'SELECT user_id::int AS id FROM audit_log WHERE action::text = $1 AND user_id = ANY ($2) ORDER BY user_id',
      [action, ids],
    )
  ).rows.map(({ id }) => id);

test('removes those whom the project has, each once, and tells the others', async () => {
  const [one, two, three, four] = ids as [string, string, string, string];
  const other = await app.createProject();
  await other.addUsers({ auth_method: 'google', auth_value: 'other' });
  const foreign = (await other.graphql('{ users { nodes { id } } }')).data.users.nodes[0].id;
  expect(await outcomes(REMOVE, { ids: [three, foreign, one, three] })).toEqual([
    done(three),
    notFound(foreign),
    done(one),
    done(three),
  ]);
  expect(await current()).toEqual([two, four].toSorted());
  expect((await other.rest(`/server/users/${foreign}`)).status).toBe(200);
  expect(await outcomes(REMOVE, { ids: [one, two] })).toEqual([notFound(one), done(two)]);
  expect((await changesOf('USER_REMOVED')).toSorted()).toEqual([one, two, three].toSorted());
  expect(await trailOf('remove')).toEqual([one, two, three].map(Number));
});

test('bans users with the same terms, and changes those that are given of who is banned', async () => {
  const [one, two, three] = ids as [string, string, string];
  expect(await outcomes(BAN, { ids: [one, two], reason: 'spam', expiresAt: '2091-01-01' })).toEqual([
    done(one),
    done(two),
  ]);
  expect(await outcomes(BAN, { ids: [two, three, NOBODY], reason: 'fraud' })).toEqual([
    done(two),
    done(three),
    expect.objectContaining({ ok: false, code: 'NOT_FOUND' }),
  ]);
  const { data } = await project.graphql(
    'query ($ids: [ID!]!) { usersByIds(ids: $ids) { ban { isOfUser reason expiresAt } } }',
    { ids },
  );
  const until = '2091-01-01T23:59:59.999Z';
  expect(data.usersByIds).toEqual([
    { ban: { isOfUser: true, reason: 'spam', expiresAt: until } },
    { ban: { isOfUser: true, reason: 'fraud', expiresAt: until } },
    { ban: { isOfUser: true, reason: 'fraud', expiresAt: null } },
    { ban: null },
  ]);
  expect(await trailOf('ban')).toEqual([one, two, two, three].map(Number));
  const login = 'mutation { recordLogin(input: { authMethod: "google", authValue: "g-0" }) { created } }';
  expect(codesOf(await project.graphql(login))).toEqual(['BANNED']);
});

test('with one key all of it is done once, with the same outcomes', async () => {
  const [one, two, three] = ids as [string, string, string];
  await outcomes(REMOVE, { ids: [two] });
  const asked = () => outcomes(REMOVE, { ids: [one, two], key: 'key-1' });
  const first = [done(one), notFound(two)];
  expect(await Promise.all([asked(), asked(), asked()])).toEqual([first, first, first]);
  await project.graphql('mutation ($id: ID!) { restoreUser(id: $id) { user { id } } }', { id: one });
  expect(await asked()).toEqual(first);
  expect((await project.rest(`/server/users/${one}`)).status).toBe(200);
  expect(codesOf(await project.graphql(REMOVE, { ids: [three], key: 'key-1' }))).toEqual(['IDEMPOTENCY_KEY_REUSED']);
  const banned = () => outcomes(BAN, { ids: [three, NOBODY], reason: 'spam', key: 'key-2' });
  expect(await banned()).toEqual(await banned());
  expect(codesOf(await project.graphql(BAN, { ids: [three, NOBODY], key: 'key-2' }))).toEqual([
    'IDEMPOTENCY_KEY_REUSED',
  ]);
  expect(await trailOf('ban')).toEqual([Number(three)]);
});

test('of many who remove and ban the same users at once, each user is removed once', async () => {
  const backwards = ids.toReversed();
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, n) => outcomes(n % 4 === 3 ? BAN : REMOVE, { ids: n % 2 === 0 ? ids : backwards })),
  );
  const removed = answers.filter((_, n) => n % 4 !== 3).flat();
  expect(removed.flatMap(({ id, ok }) => (ok ? id : [])).toSorted()).toEqual(ids.toSorted());
  expect(await current()).toEqual([]);
  expect(await trailOf('remove')).toEqual(ids.map(Number));
});

test('takes at most 100, none, and no ID that is none', async () => {
  expect(await outcomes(REMOVE, { ids: [] })).toEqual([]);
  expect(await outcomes(BAN, { ids: [] })).toEqual([]);
  const many = Array.from({ length: 101 }, (_, n) => String(n + 1));
  for (const document of [REMOVE, BAN]) {
    const { errors } = await project.graphql(document, { ids: many });
    expect(errors).toMatchObject([{ message: 'ids: got 101, expected at most 100.', extensions: { argument: 'ids' } }]);
    expect(codesOf(await project.graphql(document, { ids: [ids[0], 'x'] }))).toEqual(['BAD_USER_INPUT']);
  }
  expect(await current()).toEqual(ids.toSorted());
  const all = await addUsers(96, 4);
  expect(await outcomes(BAN, { ids: all })).toEqual(all.map(done));
  expect(await outcomes(REMOVE, { ids: all })).toEqual(all.map(done));
  expect(await current()).toEqual([]);
});
