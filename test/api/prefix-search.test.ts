import fc from 'fast-check';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { codesOf, explained } from '../support/graphql.js';

/** Users by the beginning of an email, of an identity or of an external id. */

const app = useTestApp();
let project: TestProject;
const QUERY = `query ($prefix: String!, $first: Int! = 10) {
  found: usersByPrefix(prefix: $prefix, first: $first) { hasMore users { id authValue accounts { network } } }
}`;

async function find(prefix: string, first = 50, by = project) {
  const { data, errors } = await by.graphql(QUERY, { prefix, first });
  expect(errors).toBeUndefined();
  return { values: data.found.users.map(({ authValue }: Json) => authValue), hasMore: data.found.hasMore };
}
const valuesOf = async (prefix: string) => (await find(prefix)).values;

beforeAll(async () => {
  project = await app.createProject();
  const users = [
    { auth_method: 'email', auth_value: 'User42@example.com', external_id: 'user-first' },
    { auth_method: 'email', auth_value: 'user4@example.com' },
    { auth_method: 'google', auth_value: 'User42' },
    { auth_method: 'github', auth_value: 'zeta', email: 'user43@example.com' },
    { auth_method: 'apple', auth_value: 'a.1', external_id: 'Customer 7' },
    { auth_method: 'passkey', auth_value: 'ключ', accounts: [{ network: 'stellar', public_key: stellarAddress(1) }] },
    { auth_method: 'wallet', auth_value: ethereumAddress(1) },
    { auth_method: 'wallet', auth_value: stellarAddress(2) },
    { auth_method: 'email', auth_value: 'νίκος@ΣΑΜΟΣ.example' },
    { auth_method: 'email', auth_value: 'ΝΊΚΟΣΑΒΑ@bücher.example' },
  ];
  await project.addUsers(...users);
  await (await app.createProject()).addUsers(...users);
  const gone = { auth_method: 'email', auth_value: 'user40@example.com' };
  await project.addUsers(gone);
  const { data } = await project.graphql('{ searchUsers(by: { email: "user40@example.com" }) { id } }');
  await project.rest(`/server/users/${data.searchUsers[0].id}`, { method: 'DELETE' });
});
beforeEach(() => {
  app.statements.length = 0;
});

describe('usersByPrefix', () => {
  test.each<[what: string, prefix: string, found: string[]]>([
    ['emails in any case, and IDs exactly', ' uSER4 ', ['User42@example.com', 'zeta', 'user4@example.com']],
    ['the ID at a provider', 'User4', ['User42', 'User42@example.com', 'zeta', 'user4@example.com']],
    // By its external ID, which is before all emails.
    ['an external ID', 'user', ['User42@example.com', 'zeta', 'user4@example.com']],
    ['an external ID exactly', 'Customer', ['a.1']],
    ['no external ID in another case', 'customer', []],
    ['letters of another script', 'кл', ['ключ']],
    ['a whole value', 'user43@example.com', ['zeta']],
    [
      'a wallet that logs in, in any case',
      ethereumAddress(1).slice(0, 9).toUpperCase().replace('X', 'x'),
      [ethereumAddress(1)],
    ],
    ['a Stellar wallet that logs in', stellarAddress(2).slice(0, 12), [stellarAddress(2)]],
    ['a sigma at the end of the text, in any case', 'ΝΊΚΟΣ', ['νίκος@ΣΑΜΟΣ.example', 'ΝΊΚΟΣΑΒΑ@bücher.example']],
    ['such a sigma in lower case', 'νίκος', ['νίκος@ΣΑΜΟΣ.example', 'ΝΊΚΟΣΑΒΑ@bücher.example']],
    ['the beginning of a domain in any case', 'νίκος@ΣΑΜΟΣ', ['νίκος@ΣΑΜΟΣ.example']],
    ['a domain as far as it is typed', 'νίκοσαβα@BÜCHER.', ['ΝΊΚΟΣΑΒΑ@bücher.example']],
    ['no pattern', '%', []],
    ['nobody', 'user44', []],
  ])('finds %s', async (_what, prefix, found) => {
    expect(await valuesOf(prefix)).toEqual(found);
  });

  test('says whether there are more, and gives accounts', async () => {
    expect(await find('user4', 3)).toMatchObject({ hasMore: false });
    expect(await find('user4', 2)).toEqual({ values: ['User42@example.com', 'zeta'], hasMore: true });
    const { data } = await project.graphql(QUERY, { prefix: 'клю' });
    expect(data.found.users).toMatchObject([{ accounts: [{ network: 'STELLAR' }] }]);
  });

  // On a busy machine, the time of a turn may be over between two fields: the next turn has a batch of its own (engine/compiled.ts).
  test('answers many prefixes by one statement', { retry: 3 }, async () => {
    const fields = Array.from(
      { length: 10 },
      (_, n) => `u${n}: usersByPrefix(prefix: "user${n}", first: 2) { users { id } }`,
    );
    const { data } = await project.graphql(`{ ${fields.join(' ')} }`);
    expect([data.u4.users.length, data.u5.users.length]).toEqual([2, 0]);
    expect(app.statements.filter((sql) => sql.includes('methods'))).toHaveLength(1);
  });

  test('looks at IDs of the first 10 login methods, and says that there may be more', async () => {
    const many = await app.createProject();
    const methods = Array.from({ length: 10 }, (_, n) => `provider-${n}`);
    await many.addUsers(...methods.map((auth_method) => ({ auth_method, auth_value: `x-${auth_method}` })));
    const all = methods.map((method) => `x-${method}`);
    expect(await find('x-', 50, many)).toEqual({ values: all, hasMore: false });
    expect(await find('nobody', 50, many)).toEqual({ values: [], hasMore: false });
    const last = { auth_method: 'z', external_id: 'z-external', email: 'z-email@example.com' };
    await many.addUsers({ ...last, auth_value: 'x-z' });
    expect(await find('x-', 50, many)).toEqual({ values: all, hasMore: true });
    expect(await find('x-', 10, many)).toEqual({ values: all, hasMore: true });
    expect(await find('x-', 3, many)).toEqual({ values: all.slice(0, 3), hasMore: true });
    expect(await find('nobody', 50, many)).toEqual({ values: [], hasMore: true });
    // Whatever the method, by all else.
    expect(await find('z-external', 50, many)).toEqual({ values: ['x-z'], hasMore: true });
    expect(await find('Z-email', 50, many)).toEqual({ values: ['x-z'], hasMore: true });
  });

  test('refuses what nothing begins with', async () => {
    for (const prefix of ['', ' ', 'a\u0000b', 'x'.repeat(1_501)]) {
      const { errors } = await project.graphql(QUERY, { prefix });
      expect(errors?.[0]?.extensions).toEqual({ ...explained('BAD_USER_INPUT'), argument: 'prefix' });
    }
    for (const first of [0, 51, -1])
      expect(codesOf(await project.graphql(QUERY, { prefix: 'a', first }))).toEqual(['BAD_USER_INPUT']);
  });
});

test('finds the same as a look at every user, in the order of code points', async () => {
  const some = await app.createProject();
  const letter = fc.constantFrom('a', 'A', 'b', '\ud7ff', '\ue000', '\u{10000}', 'é', '0');
  const text = fc.string({ unit: letter, minLength: 1, maxLength: 5 });
  const record = fc.record({
    auth_method: fc.constantFrom('google', 'github', 'passkey'),
    auth_value: text,
    external_id: fc.option(text),
    email: fc.option(text.map((name) => `${name}@example.com`)),
  });
  const users = fc
    .sample(
      fc.uniqueArray(record, {
        selector: ({ auth_method, auth_value }) => `${auth_method} ${auth_value}`,
        minLength: 60,
        maxLength: 60,
      }),
      1,
    )
    .flat()
    // An external id belongs to one user.
    .map((user, n, all) => ({
      ...user,
      external_id: all.findIndex(({ external_id }) => external_id === user.external_id) === n ? user.external_id : null,
    }));
  await some.addUsers(...users);
  const compare = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));
  await fc.assert(
    fc.asyncProperty(
      fc.string({ unit: letter, minLength: 1, maxLength: 3 }),
      fc.integer({ min: 1, max: 50 }),
      async (prefix, first) => {
        const exact = prefix.normalize('NFC');
        const folded = exact.toLowerCase();
        const firstMatch = users.flatMap(({ auth_method, auth_value, email, external_id }) => {
          const values = [
            ...[auth_value].filter((value) => value.startsWith(exact) || value.startsWith(folded)),
            ...[external_id ?? ''].filter((value) => value.startsWith(exact)),
            ...[email?.toLowerCase() ?? ''].filter((value) => value.startsWith(folded)),
          ].sort(compare);
          return values[0] === undefined ? [] : [{ name: `${auth_method} ${auth_value}`, value: values[0] }];
        });
        const { data } = await some.graphql(
          'query ($prefix: String!, $first: Int!) { found: usersByPrefix(prefix: $prefix, first: $first) { hasMore users { authMethod authValue email externalId } } }',
          { prefix, first },
        );
        const names = data.found.users.map(({ authMethod, authValue }: Json) => `${authMethod} ${authValue}`);
        const matchOf = new Map(firstMatch.map(({ name, value }) => [name, value]));
        expect(names.map((name: string) => matchOf.get(name))).toEqual(
          firstMatch
            .map(({ value }) => value)
            .sort(compare)
            .slice(0, first),
        );
        expect(new Set(names).size).toBe(names.length);
        expect(data.found.hasMore).toBe(firstMatch.length > first);
      },
    ),
    { numRuns: 60 },
  );
});
