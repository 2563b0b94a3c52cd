import { describe, expect, test } from 'vitest';
import { INPUT_LIMITS } from '#dist/domain/input-limits.js';
import { KEPT_TEXTS, type KeptText } from '#dist/domain/kept-texts.js';
import { LIMITS } from '#dist/engine/limits.js';
import { stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { jsonPost } from '../support/rest.js';

/** Every limit that a request can be at: one less and as many are accepted, one more is refused, and says how many are accepted. */

const app = useTestApp({ env: { WEBHOOKS_ALLOW_PRIVATE: 'on' } });

/** What the service says to a request that it refuses; null where it does what is asked. */
type Refusal = string | null;

interface Limit {
  readonly most: number;
  /** The fewest that are accepted; by default, fewer are not tried. */
  readonly fewest?: number;
  /** Asks for `count` of it, in a project of its own. */
  readonly ask: (project: TestProject, count: number) => Promise<Refusal>;
  /** What the refusal says of it, where it says something else than the number. */
  readonly says?: string;
}

const range = (count: number) => Array.from({ length: count }, (_, index) => index);
const many = (count: number, make: (index: number) => string) => range(count).map(make).join(' ');
const texts = (count: number) => 'x'.repeat(count);

async function graphql(project: TestProject, document: string, variables: Json = {}): Promise<Refusal> {
  const { errors } = await project.graphql(document, variables);
  const [error] = errors ?? [];
  if (error === undefined) return null;
  expect(['BAD_USER_INPUT', 'CONFLICT']).toContain(error.extensions.code);
  return error.message;
}

async function rest(project: TestProject, path: string, init?: RequestInit): Promise<Refusal> {
  const { status, body } = await project.rest(path, init);
  if (status === 200 || status === 404) return null;
  expect(status).toBe(400);
  return body.error;
}

/** A refusal of the service itself, for what only operators and webhooks have. */
const refusalOf = (work: Promise<unknown>): Promise<Refusal> =>
  work.then(
    () => null,
    ({ code, message }) => {
      expect(['BAD_USER_INPUT', 'CONFLICT']).toContain(code);
      return message;
    },
  );

async function addUser(project: TestProject, line: Json = {}): Promise<string> {
  await project.importLines([{ auth_method: 'passkey', auth_value: 'ada', ...line }]);
  const { data } = await project.graphql('{ userByIdentity(authMethod: "passkey", authValue: "ada") { id } }');
  return data.userByIdentity.id;
}

const scopeOf = ({ appId }: TestProject) => app.context.services.projects.getScope(appId);
const linked = (count: number, name = 'linked') =>
  range(count).map((n) => ({ auth_method: 'google', auth_value: `${name} ${n}` }));
const accounts = (count: number, first = 0) =>
  range(count).map((n) => ({ network: 'stellar', public_key: stellarAddress(first + n) }));

/** A document has so much of something, and may be invalid for other reasons. */
const ofDocument = (name: keyof typeof LIMITS, called: string, make: (count: number) => string): Limit => ({
  most: LIMITS[name],
  ask: async (project, count) => {
    const { errors } = await project.graphql(make(count));
    return errors?.map(({ message }) => message).find((message) => message.startsWith(`${called}: got`)) ?? null;
  },
});

/** Of a list in the variables of an operation. */
const ofList = (
  field: string,
  type: string,
  item: (index: number) => unknown,
  most = 100,
  operation: 'query' | 'mutation' = 'query',
): Limit => ({
  most,
  fewest: 0,
  ask: (project, count) => {
    const name = /^(\w+)\((\w+):/.exec(field)?.[2] as string;
    return graphql(project, `${operation} ($${name}: [${type}!]!) { ${field} }`, { [name]: range(count).map(item) });
  },
});

/** Of a size of a page. */
const ofPage = (field: (count: number) => string, most = 100): Limit => ({
  most,
  fewest: 1,
  ask: (project, count) => graphql(project, `{ ${field(count)} }`),
});

const LOGIN = 'mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { created } }';
const login = (project: TestProject, input: Json) =>
  graphql(project, LOGIN, { input: { authMethod: 'passkey', authValue: 'ada', ...input } });
const graphqlAccounts = (count: number, first = 0) =>
  range(count).map((n) => ({ network: 'STELLAR', publicKey: stellarAddress(first + n) }));

async function merge(project: TestProject, from: Json, into: Json): Promise<Refusal> {
  await project.importLines([
    { auth_method: 'passkey', auth_value: 'from', ...from },
    { auth_method: 'passkey', auth_value: 'into', ...into },
  ]);
  const { data } = await project.graphql(
    '{ from: userByIdentity(authMethod: "passkey", authValue: "from") { id } into: userByIdentity(authMethod: "passkey", authValue: "into") { id } }',
  );
  return graphql(
    project,
    'mutation ($from: ID!, $into: ID!) { mergeUsers(from: $from, into: $into) { user { id } } }',
    {
      from: data.from.id,
      into: data.into.id,
    },
  );
}

const importOf = async (project: TestProject, line: Json): Promise<Refusal> => {
  const { errors } = await project.importLines([{ auth_method: 'passkey', auth_value: 'ada', ...line }]);
  return errors[0]?.error ?? null;
};

/** A text of a field of a login. */
const ofLogin = (most: number, input: (count: number) => Json, says?: string): Limit => ({
  most,
  fewest: 1,
  ask: (project, count) => login(project, input(count)),
  ...(says !== undefined && { says }),
});

const ofWebhook = (most: number, given: (count: number) => Json): Limit => ({
  most,
  ask: async (project, count) => {
    const { webhooks } = app.context.services;
    const webhook = { url: 'https://hooks.example.com/', types: null, description: '', ...given(count) };
    return refusalOf(webhooks.addWebhook(await scopeOf(project), webhook));
  },
});

/** An email of so many characters: before the @ are five, and no label has more than 63. */
function emailOf(length: number): string {
  const domain = range(Math.ceil(length / 64)).map(() => texts(63));
  return `ada@${domain.join('.').slice(0, length - 4 - 8)}.example`.replace('..', 'x.');
}

const ROWS: Readonly<Record<string, Limit>> = {
  'ids of usersByIds': ofList('usersByIds(ids: $ids) { id }', 'ID', (n) => n + 1),
  'identities of usersByIdentities': ofList(
    'usersByIdentities(identities: $identities) { id }',
    'IdentityInput',
    (n) => ({ authMethod: 'passkey', authValue: `p-${n}` }),
  ),
  'externalIds of usersByExternalIds': ofList(
    'usersByExternalIds(externalIds: $externalIds) { id }',
    'String',
    (n) => `x-${n}`,
  ),
  'emails of usersByEmails': ofList('usersByEmails(emails: $emails) { id }', 'String', (n) => `user-${n}@example.com`),
  'inputs of verifyWallets': ofList(
    'verifyWallets(inputs: $inputs) { verdict }',
    'WalletInput',
    (n) => ({ address: stellarAddress(n) }),
    500,
  ),
  'first of users': ofPage((count) => `users(first: ${count}) { nodes { id } }`),
  'last of users': ofPage((count) => `users(last: ${count}) { nodes { id } }`),
  'limit of userPage': ofPage((count) => `userPage(limit: ${count}) { users { id } }`),
  'first of bans': ofPage((count) => `bans(first: ${count}) { nodes { authValue } }`),
  'first of changes': ofPage((count) => `changes(first: ${count}) { nodes { id } }`, 1_000),
  'first of usersByPrefix': ofPage((count) => `usersByPrefix(prefix: "a", first: ${count}) { hasMore }`, 50),
  'limit of GET /server/users': {
    most: 100,
    fewest: 1,
    ask: (project, count) => rest(project, `/server/users?limit=${count}`),
  },
  'ids of GET /users': {
    most: 100,
    fewest: 1,
    ask: (project, count) => rest(project, `/users?ids=${range(count).map((n) => n + 1)}`),
  },
  'wallets of POST /wallets/verify': {
    most: 500,
    fewest: 0,
    ask: (project, count) =>
      rest(
        project,
        '/wallets/verify',
        jsonPost({ wallets: range(count).map((n) => ({ address: stellarAddress(n) })) }),
      ),
  },
  'ids of removeUsers': ofList('removeUsers(ids: $ids) { outcomes { ok } }', 'ID', (n) => n + 1, 100, 'mutation'),
  'ids of banUsers': ofList('banUsers(ids: $ids) { outcomes { ok } }', 'ID', (n) => n + 1, 100, 'mutation'),

  'identities of a user, by a link': {
    most: 20,
    ask: async (project, count) => {
      const userId = await addUser(project, { identities: linked(count - 2) });
      const input = { authMethod: 'google', authValue: 'the last' };
      return graphql(
        project,
        'mutation ($userId: ID!, $input: LinkIdentityInput!) { linkIdentity(userId: $userId, input: $input) { user { id } } }',
        { userId, input },
      );
    },
  },
  'identities of a user, by a login': {
    most: 20,
    ask: async (project, count) => {
      await addUser(project, { external_id: 'x-1', identities: linked(count - 2) });
      return login(project, { authValue: 'the last', externalId: 'x-1', linkByExternalId: true });
    },
  },
  'identities of a user, by a merge': {
    most: 20,
    ask: (project, count) => merge(project, { identities: linked(6) }, { identities: linked(count - 8, 'other') }),
  },
  'identities of a user, by an import': {
    most: 20,
    ask: (project, count) => importOf(project, { identities: linked(count - 1) }),
  },
  'accounts of a user, by a login': {
    most: 100,
    ask: (project, count) => login(project, { accounts: graphqlAccounts(count) }),
  },
  'accounts of a user, by a further login': {
    most: 100,
    ask: async (project, count) => {
      await addUser(project, { accounts: accounts(60) });
      return login(project, { accounts: graphqlAccounts(count - 59, 59) });
    },
  },
  'accounts of a user, by a merge': {
    most: 100,
    ask: (project, count) => merge(project, { accounts: accounts(40) }, { accounts: accounts(count - 39, 39) }),
  },
  'accounts of a user, by an import': {
    most: 100,
    ask: (project, count) => importOf(project, { accounts: accounts(count) }),
  },
  'webhooks of a project': {
    most: 10,
    ask: async (project, count) => {
      const { webhooks } = app.context.services;
      const add = async (n: number) =>
        webhooks.addWebhook(await scopeOf(project), {
          url: `https://hooks.example.com/${n}`,
          types: null,
          description: '',
        });
      for (const n of range(count - 1)) await add(n);
      return refusalOf(add(count));
    },
  },
  'valid secrets of a webhook': {
    most: 5,
    ask: async (project, count) => {
      const { webhooks } = app.context.services;
      const scope = await scopeOf(project);
      const { id } = await webhooks.addWebhook(scope, {
        url: 'https://hooks.example.com/',
        types: null,
        description: '',
      });
      const rotate = () => webhooks.rotateSecret(scope, { id, overlapMs: 3_600_000 });
      for (const _ of range(count - 2)) await rotate();
      return refusalOf(rotate());
    },
  },

  'an email': ofLogin(320, (count) => ({ email: emailOf(count) })),
  'an email before the @': ofLogin(64, (count) => ({ email: `${texts(count)}@example.com` })),
  authMethod: ofLogin(64, (count) => ({ authMethod: 'a'.repeat(count) })),
  authValue: ofLogin(1_500, (count) => ({ authValue: texts(count) })),
  'authValue in letters of two bytes': ofLogin(750, (count) => ({ authValue: 'é'.repeat(count) }), '1500 bytes'),
  externalId: ofLogin(255, (count) => ({ externalId: texts(count) })),
  metadata: {
    most: 4_096,
    ask: (project, count) => login(project, { metadata: { a: texts(count - '{"a":""}'.length) } }),
  },
  banReason: {
    most: 500,
    fewest: 0,
    ask: (project, count) =>
      graphql(
        project,
        'mutation ($reason: String!) { banIdentity(identity: { authMethod: "passkey", authValue: "ada" }, reason: $reason) { changed } }',
        { reason: '𝔁'.repeat(count) },
      ),
  },
  'an idempotency key': {
    most: 255,
    fewest: 1,
    ask: (project, count) =>
      graphql(
        project,
        'mutation ($key: String!) { recordLogin(input: { authMethod: "passkey", authValue: "ada" }, idempotencyKey: $key) { created } }',
        { key: texts(count) },
      ),
  },
  'any text in a variable': {
    most: 4_096,
    ask: (project, count) =>
      graphql(project, 'query ($address: String!) { parseAddress(address: $address) { reason } }', {
        address: texts(count),
      }),
  },
  'any text in a document': {
    most: 4_096,
    ask: (project, count) => graphql(project, `{ parseAddress(address: "${texts(count)}") { reason } }`),
  },
  'a name in a document': {
    most: 128,
    fewest: 1,
    ask: (project, count) => graphql(project, `{ ${texts(count)}: userCount }`),
  },
  'digits of a page': {
    most: 16,
    fewest: 1,
    ask: (project, count) => rest(project, `/server/users?page=${'1'.repeat(count)}`),
    says: 'a whole number from 1 to 9007199254740991',
  },
  'the name of a project': {
    most: 200,
    fewest: 1,
    ask: (_, count) => refusalOf(app.context.services.projects.createProject(texts(count))),
  },
  'the label of a secret': {
    most: 64,
    fewest: 1,
    ask: async (project, count) => {
      const secret = { label: texts(count), scopes: ['read'], expiresInMs: null } as const;
      return refusalOf(app.context.services.secrets.addSecret(await scopeOf(project), secret));
    },
  },
  'the URL of a webhook': ofWebhook(2_048, (count) => ({
    url: `https://hooks.example.com/${texts(count - 'https://hooks.example.com/'.length)}`,
  })),
  'the description of a webhook': ofWebhook(200, (count) => ({ description: texts(count) })),

  characters: ofDocument('characters', 'characters', (count) => `{ userCount } #${' '.repeat(count - 15)}`),
  tokens: ofDocument('tokens', 'tokens', (count) => `{ ${'a '.repeat(count - 2)} }`),
  lines: ofDocument('lines', 'lines', (count) => `{ userCount${'\n'.repeat(count)} }`),
  depth: ofDocument('depth', 'depth', (count) => `${'{ users '.repeat(count - 1)} { x } ${'}'.repeat(count - 1)}`),
  'depth in fragments': ofDocument(
    'depth',
    'depth',
    (count) =>
      `{ ...A } fragment A on Query ${'{ a '.repeat(count - 2)} { ...B } ${'}'.repeat(count - 2)} fragment B on A { x { y } }`,
  ),
  operations: ofDocument('operations', 'operations', (count) => many(count, (n) => `query Q${n} { userCount }`)),
  'root fields': ofDocument('rootFields', 'root fields', (count) => `{ ${'userCount '.repeat(count)} }`),
  'root fields in a fragment': ofDocument(
    'rootFields',
    'root fields',
    (count) => `{ ${'userCount '.repeat(50)} ...A ...A } fragment A on Query { ${'userCount '.repeat(count - 50)} }`,
  ),
  aliases: ofDocument('aliases', 'aliases', (count) => `{ users { ${many(count, (n) => `a${n}: totalCount`)} } }`),
  directives: ofDocument(
    'directives',
    'directives',
    (count) => `{ users { totalCount ${'@include(if: true) '.repeat(count)} } }`,
  ),
  'directives of fragments': ofDocument(
    'directives',
    'directives',
    (count) => `{ ${many(count, () => '... @skip(if: false) { userCount }')} }`,
  ),
  'directives of a variable': ofDocument(
    'directives',
    'directives',
    (count) => `query ($a: Int ${'@a '.repeat(count)}) { userCount }`,
  ),
  fragments: ofDocument('fragments', 'fragments', (count) => `{ users { ${'... { totalCount } '.repeat(count)} } }`),
  'fragments that are spread': ofDocument(
    'fragments',
    'fragments',
    (count) => `{ ${many(count - 1, () => '...F')} } fragment F on Query { userCount }`,
  ),
  repetitions: ofDocument('repetitions', 'repetitions', (count) => `{ users { ${'totalCount '.repeat(count + 1)} } }`),
};

describe.each(Object.entries(ROWS))('%s', (_, { most, fewest = most - 1, ask, says = String(most) }) => {
  test.each([...new Set([fewest, most - 1, most])])('%i are accepted', async (count) => {
    expect(await ask(await app.createProject(), count)).toBeNull();
  });

  test('one more is refused, and it is said how many are accepted', async () => {
    const project = await app.createProject();
    expect(await ask(project, most + 1)).toContain(says);
  });

  test.runIf(fewest === 1)('none is refused', async () => {
    expect(await ask(await app.createProject(), 0)).not.toBeNull();
  });
});

test.each(Object.keys(KEPT_TEXTS) as KeptText[])(
  '%s: a longer text is refused by its length, whatever it says',
  async (field) => {
    const { max } = INPUT_LIMITS[field];
    expect(await login(await app.createProject(), { [field]: texts(max + 1) })).toContain(`${max}`);
  },
);
