import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { codesOf } from '../support/graphql.js';

/** Look-ups of many users at once: by email, by external id, by identity. */

const app = useTestApp();
let project: TestProject;
let foreign: TestProject;

const USERS = 100;
const names = Array.from({ length: USERS }, (_, index) => `user${index}`);
const FIELDS = 'authValue accounts { network }';
const user = (name: string) => ({ authValue: name, accounts: [{ network: 'STELLAR' }] });
const identity = (authValue: string) => ({ authMethod: 'google', authValue });

const QUERIES = {
  usersByEmails: {
    query: `query ($list: [String!]!) { found: usersByEmails(emails: $list) { ${FIELDS} } }`,
    list: 'emails',
    item: (name: string): Json => `${name.toUpperCase()}@Example.com`,
    found: (name: string): Json => [user(name)],
    missing: [] as Json,
    // An email may belong to several users, so fewer of them share a statement.
    statements: 2,
  },
  usersByExternalIds: {
    query: `query ($list: [String!]!) { found: usersByExternalIds(externalIds: $list) { ${FIELDS} } }`,
    list: 'externalIds',
    item: (name: string): Json => `customer-${name}`,
    found: user,
    missing: null,
    statements: 1,
  },
  usersByIdentities: {
    query: `query ($list: [IdentityInput!]!) { found: usersByIdentities(identities: $list) { ${FIELDS} } }`,
    list: 'identities',
    item: identity as (name: string) => Json,
    found: user,
    missing: null,
    statements: 1,
  },
};
const LOOKUPS = Object.entries(QUERIES);

/** What is found in five executions: the last ones are compiled. */
async function look(query: string, list: Json, by = project): Promise<Json> {
  const answers = [];
  for (let time = 0; time < 5; time += 1) answers.push(await by.graphql(query, { list }));
  const [first] = answers;
  for (const { status, data, errors } of answers)
    expect({ status, data, errors }).toEqual({ ...first, headers: undefined });
  return first?.data?.found ?? first?.errors;
}

beforeAll(async () => {
  [project, foreign] = [await app.createProject(), await app.createProject()];
  const users = names.map((name, index) => ({
    auth_method: 'google',
    auth_value: name,
    email: `${name}@example.com`,
    external_id: `customer-${name}`,
    accounts: [{ network: 'stellar', public_key: stellarAddress(index) }],
  }));
  await project.addUsers(...users);
  await foreign.addUsers(...users.slice(0, 1));
});
beforeEach(() => {
  app.statements.length = 0;
});

describe.each(LOOKUPS)('%s', (_name, { query, list, item, found, missing, statements }) => {
  test('keeps the order and repetitions, and has a place for each who is not there', async () => {
    const asked = ['user7', 'nobody', 'user3', 'user7'].map(item);
    expect(await look(query, asked)).toEqual([found('user7'), missing, found('user3'), found('user7')]);
    expect(await look(query, [])).toEqual([]);
  });

  test('finds nobody of another project', async () => {
    expect(await look(query, ['user0', 'user1'].map(item), foreign)).toEqual([found('user0'), missing]);
  });

  test('finds no user who was removed', async () => {
    const own = await app.createProject();
    await own.addUsers({ ...identityLine('gone'), email: 'gone@example.com', external_id: 'customer-gone' });
    expect(await look(query, [item('gone')], own)).toEqual([{ ...found('gone') }].map(withoutAccounts));
    const { data } = await own.graphql('{ users { nodes { id } } }');
    await own.rest(`/server/users/${data.users.nodes[0].id}`, { method: 'DELETE' });
    expect(await look(query, [item('gone')], own)).toEqual([missing]);
  });

  test(`reads ${USERS} users with their accounts by few statements`, async () => {
    const { data } = await project.graphql(query, { list: names.map(item) });
    expect(data.found).toEqual(names.map(found));
    expect(app.statements.filter((sql) => /FROM users u|accounts a/.test(sql))).toHaveLength(statements);
  });

  test('refuses more than 100, before it reads any', async () => {
    const { data, errors } = await project.graphql(query, { list: Array.from({ length: 101 }, () => item('user1')) });
    expect([data, errors?.map(({ message }) => message)]).toEqual([null, [`${list}: got 101, expected at most 100.`]]);
    expect(app.statements.filter((sql) => /FROM users u/.test(sql))).toEqual([]);
  });

  test('names the item that is malformed, also one that is too long', async () => {
    for (const bad of ['', '\u0000', 'x'.repeat(2_000)]) {
      const given = typeof item('x') === 'string' ? bad : identity(bad);
      const { errors } = await project.graphql(query, { list: [item('user1'), given] });
      const [error] = errors ?? [];
      expect([errors?.length, error?.extensions.code]).toEqual([1, 'BAD_USER_INPUT']);
      expect(error?.message).toMatch(new RegExp(`^${list}\\[1\\]`));
    }
  });
});

const identityLine = (name: string) => ({ auth_method: 'google', auth_value: name });
/** The user, or the list of users, without accounts. */
function withoutAccounts(found: Json): Json {
  const [first]: Json[] = Object.values(found);
  return Array.isArray(found) || 'authValue' in found ? { ...found, accounts: [] } : [{ ...first, accounts: [] }];
}

describe('usersByEmails', () => {
  const QUERY = 'query ($list: [String!]!) { found: usersByEmails(emails: $list) { id authValue } }';
  const sharing = async (owner: TestProject, email: string, count: number) =>
    owner.addUsers(
      ...Array.from({ length: count }, (_, index) => ({
        auth_method: 'github',
        auth_value: `${email} ${index}`,
        email,
        created_at: new Date(Date.UTC(2026, 0, 1, 0, index)).toISOString(),
      })),
    );

  test('has all users of an email, newest first, and says what it costs before it has read them', async () => {
    const own = await app.createProject();
    await sharing(own, 'two@example.com', 2);
    await sharing(own, 'many@example.com', 30);
    const list = ['two@example.com', 'many@example.com', 'none@example.com'];
    const { data } = await own.graphql(QUERY, { list });
    expect(data.found.map((users: Json) => users.length)).toEqual([2, 30, 0]);
    expect(data.found[0].map(({ authValue }: Json) => authValue)).toEqual(['two@example.com 1', 'two@example.com 0']);
    const response = await fetch(`${app.url}/graphql`, {
      method: 'POST',
      headers: { ...own.credentials, 'content-type': 'application/json', 'userdir-cost': '1' },
      body: JSON.stringify({ query: QUERY, variables: { list } }),
    });
    // Before: 1 for the field, 10 for the search, and for each email 8 and a user with two fields.
    const { extensions }: Json = await response.json();
    expect(extensions.cost.requested).toBe(11 + 3 * (8 + 2));
  });

  test.each([
    ['for all that it may cost is answered', 0],
    ['that is dearer by one is refused', 1],
  ])('an operation that pays for the users it has read %s', async (_, more) => {
    const own = await app.createProject();
    await sharing(own, 'two@example.com', 2);
    await sharing(own, 'many@example.com', 30);
    // A list costs 11, and for each email 8 and a user with its fields. 29 users come as well.
    const costOf = (emails: number, fields: number) => 11 + emails * (8 + fields);
    const rest = 10_000 + more - costOf(3, 1) - 29;
    const tens = Math.floor((rest - 100) / costOf(100, 1));
    const nines = Math.floor((rest - 100 - tens * costOf(100, 1)) / 9);
    const fields = rest - tens * costOf(100, 1) - costOf(nines, 1) - costOf(1, 0);
    const nobody = (count: number) => JSON.stringify(Array.from({ length: count }, (_, n) => `none${n}@example.com`));
    const query = `query ($hundred: [String!]!) {
      found: usersByEmails(emails: ["two@example.com", "many@example.com", "none@example.com"]) { id }
      ${Array.from({ length: tens }, (_, n) => `all${n}: usersByEmails(emails: $hundred) { id }`).join(' ')}
      some: usersByEmails(emails: ${nobody(nines)}) { id }
      one: usersByEmails(emails: ${nobody(1)}) { ${Array.from({ length: fields }, (_, n) => `f${n}: id`).join(' ')} }
    }`;
    const { data, errors } = await own.graphql(query, { hundred: JSON.parse(nobody(100)) });
    if (more === 0) expect(data.found.flat()).toHaveLength(32);
    else expect([data, errors?.[0]?.message]).toEqual([undefined, expect.stringMatching(/^cost: got more/)]);
  });

  test('refuses emails that match more than 1,000 users together', async () => {
    const own = await app.createProject();
    await sharing(own, 'a@example.com', 500);
    await sharing(own, 'b@example.com', 500);
    const { data } = await own.graphql(QUERY, { list: ['a@example.com', 'b@example.com'] });
    expect(data.found.map((users: Json) => users.length)).toEqual([500, 500]);
    await sharing(own, 'c@example.com', 1);
    const answer = await own.graphql(QUERY, { list: ['a@example.com', 'b@example.com', 'c@example.com'] });
    expect(codesOf(answer)).toEqual(['BAD_USER_INPUT']);
    expect(answer.errors?.[0]?.message).toMatch(/^emails: more than 1,000 users match/);
  });
});
