import { hash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { KEPT_TEXTS, type KeptText, ofKeptLines } from '#dist/domain/kept-texts.js';
import { camelCase, snakeCase } from '#dist/domain/spelling.js';
import { FEED_FIELDS, selectColumns, USER_COLUMNS, type UserColumn } from '#dist/domain/user-columns.js';
import { ethereumAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp, withoutIds } from '../support/app.js';

/**
 * What holds for each row of the table of a user's columns (domain/user-columns.ts), whichever rows it has. A field that is added is tried here
 * without being named, if it is a text that a caller keeps with a user. Another one needs two values in `VALUES`.
 */

const app = useTestApp();

/** Two values of each field that a login or a line may give, by its key in a line. */
const VALUES: Readonly<Record<string, readonly [Json, Json]>> = {
  email: ['ada@example.com', 'grace@example.com'],
  wallet: [ethereumAddress(1), ethereumAddress(2)],
  created_at: ['2024-01-02T03:04:05.006Z', '2025-01-02T03:04:05.006Z'],
  last_login: ['2025-02-03T04:05:06.007Z', '2025-03-03T04:05:06.007Z'],
  login_count: [3, 7],
  email_verified: [true, false],
  metadata: [{ plan: 'pro' }, { plan: 'free', seats: 3 }],
  ...ofKeptLines((field) => KEPT_TEXTS[field].examples),
};
/** What a field is given with, where it says something of that. */
const GIVEN_WITH: Readonly<Record<string, Json>> = { email_verified: { email: 'ada@example.com' } };

const OPTIONAL = selectColumns(
  ({ line, isNullable, ifAbsent }) => line !== undefined && (isNullable === true || ifAbsent !== undefined),
);
const FROM_LOGIN = OPTIONAL.filter(({ from }) => from === 'login').map((column) => [column.line as string, column]);
const CHANGEABLE = selectColumns(({ isChangeable }) => isChangeable === true).map((column) => [
  column.line as string,
  column,
]);
type Row = [line: string, column: UserColumn];
/** The column that shows it: that of the email also has who took it away. */
const shownIn = ({ name }: UserColumn) => (name === 'said_email' ? 'login_email' : name);

const valuesOf = (line: string) => {
  const values = VALUES[line];
  if (values === undefined) throw new Error(`Give ${line} two values in VALUES.`);
  return values;
};
let serial = 0;
const newIdentity = () => {
  serial += 1;
  return { auth_method: 'github', auth_value: `user-${serial}` };
};
const asInput = (line: Json) => Object.fromEntries(Object.entries(line).map(([key, value]) => [camelCase(key), value]));

async function ask(project: TestProject, document: string, variables: Json = {}): Promise<Json> {
  const { data, errors } = await project.graphql(document, variables);
  expect(errors).toBeUndefined();
  return Object.values(data as Json)[0];
}
const LOGIN = `mutation ($input: RecordLoginInput!, $key: String) {
  recordLogin(input: $input, idempotencyKey: $key) { created user { id } }
}`;
const login = async (project: TestProject, line: Json, key: string | null = null): Promise<string> =>
  (await ask(project, LOGIN, { input: asInput(line), key })).user.id;
const update = (project: TestProject, id: string, input: Json) =>
  ask(project, 'mutation ($id: ID!, $input: UpdateUserInput!) { updateUser(id: $id, input: $input) { user { id } } }', {
    id,
    input: asInput(input),
  });

/** The row of a user, with instants as numbers. */
async function rowOf(id: string): Promise<Json> {
  const { rows } = await app.context.db.pool.query('SELECT to_jsonb(u) AS row FROM users u WHERE id = $1', [id]);
  const entries = Object.entries(rows[0].row as Json).map(([name, value]) => {
    const column = Object.values<UserColumn>(USER_COLUMNS).find((one) => one.name === name);
    return [name, column?.type === 'timestamptz' && value !== null ? instantOf(value as string) : value];
  });
  return Object.fromEntries(entries);
}
const instantOf = (text: string) => (text === '-infinity' ? Number.NEGATIVE_INFINITY : Date.parse(text));

/** The fields that the changes of a user name, one list for each change. */
async function changedFields(project: TestProject, id: string): Promise<string[][]> {
  const { nodes } = await ask(project, '{ changes(first: 1000) { nodes { type userId fields } } }');
  return nodes
    .filter(({ type, userId }: Json) => type === 'USER_UPDATED' && userId === id)
    .map(({ fields }: Json) => fields);
}

test.each(FROM_LOGIN as Row[])('%s is stored where a login gives nothing else', async (line, column) => {
  const project = await app.createProject();
  const [value, other] = valuesOf(line);
  const given = { ...GIVEN_WITH[line], [line]: value };
  expect((await rowOf(await login(project, { ...newIdentity(), ...given })))[shownIn(column)]).toEqual(value);

  // Of a user who exists, by a login that shares a statement with a plain one.
  const existing = newIdentity();
  const id = await login(project, existing);
  const later = { ...GIVEN_WITH[line], [line]: other };
  await Promise.all([login(project, newIdentity()), login(project, { ...existing, ...later })]);
  expect((await rowOf(id))[shownIn(column)]).toEqual(other);
  // A login that says nothing of it leaves it.
  await login(project, existing);
  expect((await rowOf(id))[shownIn(column)]).toEqual(other);
});

test.each((FROM_LOGIN as Row[]).filter(([line]) => !['email', 'email_verified'].includes(line)))(
  '%s is stored where a login by a linked identity gives nothing else',
  async (line, column) => {
    const project = await app.createProject();
    const id = await login(project, newIdentity());
    const linked = newIdentity();
    await ask(
      project,
      'mutation ($id: ID!, $input: LinkIdentityInput!) { linkIdentity(userId: $id, input: $input) { user { id } } }',
      { id, input: asInput(linked) },
    );
    const [value] = valuesOf(line);
    expect(await login(project, { ...linked, [line]: value })).toBe(id);
    expect((await rowOf(id))[shownIn(column)]).toEqual(value);
  },
);

test.each(FROM_LOGIN as Row[])('the feed names %s, and a login that repeats it is no change', async (line) => {
  const project = await app.createProject();
  const [value] = valuesOf(line);
  const given = { ...newIdentity(), ...GIVEN_WITH[line] };
  const id = await login(project, given);
  await login(project, { ...given, [line]: value });
  await login(project, { ...given, [line]: value });
  expect(FEED_FIELDS).toContain(line);
  expect((await changedFields(project, id)).map((fields) => fields.filter((field) => field !== 'accounts'))).toEqual(
    // The wallet is an account, too.
    line === 'wallet' ? expect.arrayContaining([['wallet']]) : [[camelCase(line)]],
  );
});

test('a retry is compared by what the login says: a field that it does not say is not part of it', async () => {
  const project = await app.createProject();
  const said = newIdentity();
  await login(project, said, 'key-1');
  const { rows } = await app.context.db.pool.query(
    `SELECT request_hash FROM idempotency_keys k JOIN projects p ON p.id = k.project_id WHERE p.app_id = $1`,
    [project.appId],
  );
  const request = { authMethod: 'github', authValue: said.auth_value, authValueKey: said.auth_value, accounts: [] };
  expect(rows[0].request_hash.toString('hex')).toBe(hash('sha256', JSON.stringify(['login', request])));
  // What it says counts.
  for (const [line] of FROM_LOGIN as Row[]) {
    const [value] = valuesOf(line);
    const other = { ...said, ...GIVEN_WITH[line], [line]: value };
    const { errors } = await project.graphql(LOGIN, { input: asInput(other), key: 'key-1' });
    expect([line, errors?.[0]?.extensions.code]).toEqual([line, 'IDEMPOTENCY_KEY_REUSED']);
  }
});

test.each(CHANGEABLE as Row[])(
  'updateUser sets %s, and takes it away; the feed and the trail name it',
  async (line, column) => {
    const project = await app.createProject();
    const id = await login(project, newIdentity());
    const [value, other] = valuesOf(line);
    for (const next of [value, other, null, null]) {
      await update(project, id, { [line]: next });
      expect((await rowOf(id))[shownIn(column)]).toEqual(next);
    }
    expect(await changedFields(project, id)).toEqual([[camelCase(line)], [camelCase(line)], [camelCase(line)]]);
    const { rows } = await app.context.db.pool.query(
      `SELECT details FROM audit_log WHERE action = 'update' AND user_id = $1 ORDER BY id`,
      [id],
    );
    expect(rows.map(({ details }: Json) => details.fields)).toEqual([[line], [line], [line]]);
  },
);

test('updateUser changes what the table says, and nothing else', async () => {
  const project = await app.createProject();
  const { inputFields } = await ask(project, '{ __type(name: "UpdateUserInput") { inputFields { name } } }');
  const names = inputFields.map((field: Json) => snakeCase(field.name));
  const changeable = (CHANGEABLE as Row[]).map(([line]) => camelCase(line));
  // Two ways to change one field.
  expect(names.sort()).toEqual([...changeable, 'metadataPatch'].sort());
});

/** A line with some of the fields. Two lines share no external ID. */
const someFields = fc.record(
  Object.fromEntries(OPTIONAL.map(({ line = '' }) => [line, fc.constantFrom(...valuesOf(line))])) as Record<
    string,
    fc.Arbitrary<Json>
  >,
  { requiredKeys: [] },
);
const lineOf = (fields: Json): Json => ({
  ...newIdentity(),
  ...fields,
  ...(fields.external_id && { external_id: `${fields.external_id}-${serial}` }),
  ...('email_verified' in fields && { email: fields.email ?? 'ada@example.com' }),
});

const number = (value: Json) => (value === null ? null : Number(value));
/** What a merge makes of the values of two users, by the policies of the table. */
const MERGED: Readonly<
  Record<UserColumn['whenMerged'], (own: Json, other: Json, otherwise: Json, merged: Json) => Json>
> = {
  own: (own) => own,
  'own or other': (own, other) => own ?? other,
  least: (own, other) => Math.min(...([own, other].filter((value) => value !== null).map(number) as number[])),
  greatest: (own, other) => {
    const known = [own, other].filter((value) => value !== null);
    return known.length === 0 ? null : Math.max(...known);
  },
  sum: (own, other) => own + other,
  forgotten: () => null,
  // What becomes of emails, identities.test.ts tries.
  'as emails': (_own, _other, _otherwise, merged) => merged,
  'own before': (own, _other, otherwise) => own ?? otherwise ?? Number.NEGATIVE_INFINITY,
};

test('after a merge each column is what its policy says', async () => {
  await fc.assert(
    fc.asyncProperty(someFields, someFields, async (one, two) => {
      const project = await app.createProject();
      await project.importLines([lineOf(one), lineOf(two)]);
      const { body } = await project.rest('/server/users');
      const [into, from] = body.result.users.map(({ id }: Json) => String(id));
      const [own, other] = [await rowOf(into), await rowOf(from)];
      await ask(project, 'mutation ($from: ID!, $into: ID!) { mergeUsers(from: $from, into: $into) { user { id } } }', {
        from,
        into,
      });
      const merged = await rowOf(into);
      for (const { name, whenMerged, otherwise = '' } of Object.values<UserColumn>(USER_COLUMNS))
        expect([name, merged[name]]).toEqual([
          name,
          MERGED[whenMerged](own[name], other[name], own[otherwise] ?? null, merged[name]),
        ]);
    }),
    { numRuns: 12 },
  );
});

async function exported({ appId }: TestProject): Promise<string> {
  const { transfers, projects } = app.context.services;
  let text = '';
  await transfers.exportUsers(await projects.getScope(appId), {
    signal: new AbortController().signal,
    write: async (chunk: string) => {
      text += chunk;
    },
  });
  return text;
}
const linesOf = (ndjson: string) =>
  ndjson
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));

test('what is exported, imported and exported again is the same, and has each field that was given', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(someFields, { minLength: 1, maxLength: 4 }), async (users) => {
      const [one, other] = [await app.createProject(), await app.createProject()];
      const lines = users.map(lineOf);
      await one.importLines(lines);
      const first = withoutIds(await exported(one));
      await other.importLines(linesOf(first));
      expect(withoutIds(await exported(other))).toBe(first);
      for (const [place, line] of linesOf(first).entries()) expect(line).toMatchObject(lines[place]);
    }),
    { numRuns: 8 },
  );
});

test('a copy of a user by REST and by GraphQL has each text that a caller keeps', async () => {
  const project = await app.createProject();
  const texts = ofKeptLines((field) => KEPT_TEXTS[field].examples[0]);
  const id = await login(project, { ...newIdentity(), ...texts });
  const { body } = await project.rest(`/users?ids=${id}`);
  expect(body.result.users[0]).toMatchObject(texts);
  const names = Object.keys(KEPT_TEXTS) as KeptText[];
  const shown = await ask(project, `query ($id: ID!) { user(id: $id) { ${names.join(' ')} } }`, { id });
  expect(shown).toEqual(asInput(texts));
  // The contract of /server is older.
  for (const line of Object.keys(texts))
    expect((await project.rest(`/server/users/${id}`)).body.result).not.toHaveProperty(line);
});
