import { beforeEach, expect, test } from 'vitest';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { codesOf } from '../support/graphql.js';

/** Changes of single keys of a user's metadata: JSON merge patch, RFC 7396. */

const app = useTestApp();
let project: TestProject;
let id: string;
beforeEach(async () => {
  project = await app.createProject();
  const { data } = await project.graphql(
    'mutation { createUser(input: { authMethod: "google", authValue: "g-1" }) { user { id } } }',
  );
  id = data.createUser.user.id;
});

const UPDATE = `mutation ($id: ID!, $input: UpdateUserInput!, $key: String = null) {
  updateUser(id: $id, input: $input, idempotencyKey: $key) { user { id externalId metadata } }
}`;
const update = (input: Json, key?: string) => project.graphql(UPDATE, { id, input, key });
async function updated(input: Json, key?: string): Promise<Json> {
  const { data, errors } = await update(input, key);
  expect(errors).toBeUndefined();
  return data.updateUser.user.metadata;
}
async function refused(input: Json): Promise<Json> {
  const { errors } = await update(input);
  expect(errors).toHaveLength(1);
  return errors?.[0];
}
const fieldsOfChanges = async (): Promise<Json[]> => {
  const { data } = await project.graphql('{ changes { nodes { type fields } } }');
  return data.changes.nodes.map(({ type, fields }: Json) => [type, fields]);
};

/** The examples of RFC 7396, appendix A, each as a value of one key: metadata and patches are objects. */
test.each<[original: Json, patch: Json, result: Json]>([
  [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
  [{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
  [{ a: 'b' }, { a: null }, {}],
  [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
  [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
  [{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
  [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
  [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
  [
    ['a', 'b'],
    ['c', 'd'],
    ['c', 'd'],
  ],
  [{ a: 'b' }, ['c'], ['c']],
  [{ a: 'foo' }, null, undefined],
  [{ a: 'foo' }, 'bar', 'bar'],
  [{ e: null }, { a: 1 }, { e: null, a: 1 }],
  [[1, 2], { a: 'b', c: null }, { a: 'b' }],
  [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
])('%j patched with %j is %j', async (original, patch, result) => {
  const isPlain = (value: Json) => typeof value === 'object' && value !== null && !Array.isArray(value);
  await updated({ metadata: { key: original, other: 1 } });
  expect(await updated({ metadataPatch: { key: patch } })).toEqual(
    result === undefined ? { other: 1 } : { key: result, other: 1 },
  );
  if (!isPlain(patch)) return;
  // And as the whole of it.
  await updated({ metadata: isPlain(original) ? original : null });
  expect(await updated({ metadataPatch: patch })).toEqual(result);
});

test('a patch of no metadata makes some, and names of objects are keys like others', async () => {
  expect(await updated({ metadataPatch: { toString: { a: 1 }, constructor: { b: { c: 2 } } } })).toEqual({
    toString: { a: 1 },
    constructor: { b: { c: 2 } },
  });
  expect(await updated({ metadataPatch: { constructor: { b: { c: null } }, toString: null } })).toEqual({
    constructor: { b: {} },
  });
});

test('of 16 who change different keys at once, also deep ones, each is kept', async () => {
  await updated({ metadata: { kept: true, counts: { start: 0 } } });
  const keys = Array.from({ length: 16 }, (_, n) => `key${n}`);
  await Promise.all(
    keys.map((key, n) => updated({ metadataPatch: n % 2 === 0 ? { [key]: n } : { counts: { [key]: n } } })),
  );
  expect(await updated({ metadataPatch: {} })).toEqual({
    kept: true,
    ...Object.fromEntries(keys.flatMap((key, n) => (n % 2 === 0 ? [[key, n]] : []))),
    counts: { start: 0, ...Object.fromEntries(keys.flatMap((key, n) => (n % 2 === 1 ? [[key, n]] : []))) },
  });
});

test('it is one change of the metadata, with others of the user; the same again is none', async () => {
  await updated({ metadata: { plan: 'free' } });
  expect(await updated({ metadataPatch: { plan: 'pro' }, externalId: 'E-1' })).toEqual({ plan: 'pro' });
  await updated({ metadataPatch: { plan: 'pro', gone: null } });
  expect(await fieldsOfChanges()).toEqual([
    ['USER_CREATED', []],
    ['USER_UPDATED', ['metadata']],
    ['USER_UPDATED', ['externalId', 'metadata']],
  ]);
  const { rows } = await app.context.db.pool.query(
    `SELECT details FROM audit_log WHERE action = 'update' AND user_id = $1 ORDER BY id`,
    [id],
  );
  expect(rows.map(({ details }) => details.fields)).toEqual([['metadata'], ['external_id', 'metadata']]);
});

test('metadata have at most 4 KiB after the patch, and what is refused changes nothing', async () => {
  await updated({ metadata: { a: 'x'.repeat(3_000) } });
  const tooLong = await refused({ metadataPatch: { b: 'y'.repeat(1_200) }, externalId: 'E-1' });
  expect(tooLong).toMatchObject({
    message: 'metadataPatch: the metadata would have 4215 bytes of JSON, expected a JSON object of at most 4096 bytes.',
    extensions: { code: 'BAD_USER_INPUT', argument: 'input.metadataPatch' },
  });
  expect(await fieldsOfChanges()).toHaveLength(2);
  // What goes makes room.
  expect(await updated({ metadataPatch: { a: null, b: 'y'.repeat(4_000) } })).toEqual({ b: 'y'.repeat(4_000) });
});

test('a patch is an object like metadata, and does not come with them', async () => {
  for (const [input, words] of [
    [{ metadataPatch: null }, 'metadataPatch: got null, expected a JSON object'],
    [{ metadataPatch: [1] }, 'metadataPatch: got'],
    [{ metadataPatch: 'a' }, 'metadataPatch: got'],
    [{ metadataPatch: { a: 'x'.repeat(2_000), b: 'y'.repeat(2_100) } }, 'metadataPatch: got 4'],
    [{ metadataPatch: { a: 2 ** 60 } }, 'metadataPatch: "a" cannot be kept'],
    [{ metadataPatch: { a: 1 }, metadata: { b: 1 } }, 'metadataPatch: expected none together with metadata'],
    [{ metadataPatch: { a: 1 }, metadata: null }, 'metadataPatch: expected none together with metadata'],
  ] as const) {
    expect(await refused(input)).toMatchObject({
      message: expect.stringContaining(words),
      extensions: { code: 'BAD_USER_INPUT', argument: 'input.metadataPatch' },
    });
  }
});

test('the key __proto__ is refused in a document, too', async () => {
  const { errors } = await project.graphql(
    `mutation { updateUser(id: ${id}, input: { metadataPatch: { a: { __proto__: 1 } } }) { user { id } } }`,
  );
  expect(errors).toMatchObject([{ message: expect.stringContaining('"__proto__" cannot be kept') }]);
});

test('with a key it is done once, whatever becomes of the metadata', async () => {
  const patch = { metadataPatch: { a: 'x'.repeat(1_000) } };
  await Promise.all(Array.from({ length: 4 }, () => updated(patch, 'key-1')));
  await updated({ metadata: { b: 'y'.repeat(4_000) } });
  expect(await updated(patch, 'key-1')).toEqual({ b: 'y'.repeat(4_000) });
  expect(codesOf(await update({ metadataPatch: { a: 1 } }, 'key-1'))).toEqual(['IDEMPOTENCY_KEY_REUSED']);
  // What was refused is not kept.
  expect(codesOf(await update(patch, 'key-2'))).toEqual(['BAD_USER_INPUT']);
  await updated({ metadata: null });
  expect(await updated(patch, 'key-2')).toEqual(patch.metadataPatch);
});

test('a user who is removed or unknown is NOT_FOUND, but a retry has the answer of the first', async () => {
  await updated({ metadataPatch: { a: 1 } }, 'key-1');
  await project.rest(`/server/users/${id}`, { method: 'DELETE' });
  expect(codesOf(await update({ metadataPatch: { a: 2 } }))).toEqual(['NOT_FOUND']);
  expect(await updated({ metadataPatch: { a: 1 } }, 'key-1')).toEqual({ a: 1 });
  const { errors } = await project.graphql(UPDATE, { id: '99999999999999999999', input: { metadataPatch: { a: 1 } } });
  expect(errors).toMatchObject([{ extensions: { code: 'NOT_FOUND', argument: 'id' } }]);
});
