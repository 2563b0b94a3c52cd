import { expect, test } from 'vitest';
import { KEPT_TEXTS, ofKeptLines } from '#dist/domain/kept-texts.js';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';

const app = useTestApp();

/** Columns that an export omits, each with the reason. A new column is exported and imported, or listed here. */
const MADE_ANEW: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  users: {
    project_id: 'the project that is imported into',
    id: 'made anew',
    deleted_at: 'only current users are exported, of whom it is null',
    import_id: 'the import that has made the user',
    merged_into: 'only current users are exported, of whom it is null',
  },
  identities: {
    project_id: 'the project that is imported into',
    id: 'made anew',
    user_id: 'made anew with its user',
    removed: 'only current users are exported, of whom it is false',
  },
  accounts: { project_id: 'the project that is imported into', id: 'made anew', user_id: 'made anew with its user' },
  bans: {
    project_id: 'the project that is imported into',
    id: 'made anew',
    user_id: 'the ban of a user is exported as those of their identities',
  },
};

/** Every exported column has at least two values here, so that a default cannot hide a lost value. */
const LINES: readonly Json[] = [
  {
    auth_method: 'email',
    auth_value: 'Ada@Example.com',
    ...ofKeptLines((field) => KEPT_TEXTS[field].examples[0]),
    created_at: '2025-01-02T03:04:05.678Z',
    last_login: '2025-02-03T04:05:06.789Z',
    login_count: 7,
    accounts: [{ network: 'stellar', public_key: stellarAddress(1) }],
    identities: [
      {
        auth_method: 'email',
        auth_value: 'ada@example.com',
        created_at: '2025-01-03T03:04:05.678Z',
        last_login: null,
        primary: true,
      },
      {
        auth_method: 'github',
        auth_value: 'Ada-Hub',
        email: 'ada@hub.example',
        email_verified: true,
        created_at: '2025-01-04T03:04:05.678Z',
        last_login: '2025-02-03T04:05:06.789Z',
      },
    ],
  },
  {
    auth_method: 'google',
    auth_value: 'Google-1',
    email: 'bob@example.com',
    ...ofKeptLines((field) => KEPT_TEXTS[field].examples[1]),
    email_verified: true,
    metadata: { plan: 'pro', tags: ['a', 1.5, null] },
    wallet: `0x${ethereumAddress(1).slice(2).toUpperCase()}`,
    created_at: '2024-01-02T03:04:05.006Z',
    last_login: '2024-02-03T04:05:06.007Z',
    login_count: 3,
    accounts: [{ network: 'stellar', public_key: stellarAddress(2) }],
    identities: [
      {
        auth_method: 'google',
        auth_value: 'Google-1',
        created_at: '2024-01-02T03:04:05.006Z',
        last_login: '2024-02-02T04:05:06.007Z',
        primary: true,
      },
      { auth_method: 'passkey', auth_value: 'Hub', created_at: '2024-01-05T03:04:05.006Z' },
    ],
  },
  { auth_method: 'wallet', auth_value: stellarAddress(3), created_at: '2023-01-02' },
  {
    ban: {
      auth_method: 'email',
      auth_value: 'Eve@Example.com',
      created_at: '2025-03-04T05:06:07.089Z',
      reason: 'Spam',
      expires_at: '2999-03-04T05:06:07.089Z',
    },
  },
  { ban: { auth_method: 'passkey', auth_value: 'Key', created_at: '2024-03-04T05:06:07.089Z' } },
];

async function rowsOf(table: string, { appId }: TestProject): Promise<Json[]> {
  const { rows } = await app.context.db.pool.query(
    `SELECT to_jsonb(t) AS row FROM ${table} t JOIN projects p ON p.id = t.project_id WHERE p.app_id = $1`,
    [appId],
  );
  return rows.map(({ row }: Json) => row);
}

async function transfer(to: TestProject, lines: string): Promise<string> {
  const { transfers, projects } = app.context.services;
  const scope = await projects.getScope(to.appId);
  const options = { progress: () => undefined, signal: new AbortController().signal };
  async function* input() {
    yield Buffer.from(lines);
  }
  const report = await transfers.importUsers(scope, input(), { ...options, onConflict: 'fail', skipInvalid: false });
  expect(report.errors).toEqual([]);
  let exported = '';
  const write = async (chunk: string) => {
    exported += chunk;
  };
  await transfers.exportUsers(scope, { ...options, write });
  return exported;
}

test('every column of users, identities, accounts and bans survives export and import', async () => {
  const [one, other] = [await app.createProject(), await app.createProject()];
  const exported = await transfer(one, LINES.map((line) => JSON.stringify(line)).join('\n'));
  await transfer(other, exported);
  for (const [table, madeAnew] of Object.entries(MADE_ANEW)) {
    const [before, after] = [await rowsOf(table, one), await rowsOf(table, other)];
    for (const column of Object.keys(before[0])) {
      if (column in madeAnew) continue;
      const values = (rows: Json[]) => rows.map((row) => JSON.stringify(row[column])).sort();
      const name = `${table}.${column}`;
      expect(
        new Set(values(before)).size,
        `${name} has one value only: give the lines of this test two`,
      ).toBeGreaterThan(1);
      expect([name, values(after)]).toEqual([name, values(before)]);
    }
    const compared = (rows: Json[]) =>
      rows.map((row) => JSON.stringify(Object.entries(row).filter(([column]) => !(column in madeAnew)))).sort();
    expect([table, compared(after)]).toEqual([table, compared(before)]);
  }
});

test('every value of an identity survives a merge, and that another one becomes the primary one', async () => {
  const project = await app.createProject();
  const identitiesOf = (exported: string) =>
    exported
      .split('\n')
      .filter((line) => line.includes('"identities"'))
      .flatMap((line): Json[] => JSON.parse(line).identities)
      .map(({ primary: _, ...identity }) => identity)
      .sort((one, other) => one.created_at.localeCompare(other.created_at));
  const none = '';
  const known = identitiesOf(await transfer(project, LINES.map((line) => JSON.stringify(line)).join('\n')));
  expect(known).toHaveLength(4);
  const idOf = async (authMethod: string, authValue: string) => {
    const query = `{ userByIdentity(authMethod: "${authMethod}", authValue: "${authValue}") { id } }`;
    return (await project.graphql(query)).data.userByIdentity.id;
  };
  const [from, into] = [await idOf('google', 'Google-1'), await idOf('github', 'Ada-Hub')];
  const merged = await project.graphql(`mutation { mergeUsers(from: ${from}, into: ${into}) { user { id } } }`);
  expect(merged.data.mergeUsers.user.id).toBe(into);
  expect(identitiesOf(await transfer(project, none))).toEqual(known);

  const primary = '{ authMethod: "email", authValue: "ada@example.com" }';
  await project.graphql(`mutation { unlinkIdentity(userId: ${into}, identity: ${primary}) { user { id } } }`);
  expect(await idOf('passkey', 'Hub')).toBe(into);
  expect(identitiesOf(await transfer(project, none))).toEqual(
    known.filter(({ auth_method }: Json) => auth_method !== 'email'),
  );
});
