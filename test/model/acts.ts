import fc from 'fast-check';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import type {
  BanLine,
  GivenTerms,
  IdentityName,
  Import,
  LinkInput,
  LoginInput,
  NewUserInput,
  Project,
  UpdateInput,
  User,
  UserLine,
} from './model.js';
import * as model from './model.js';
import type { Service } from './service.js';

/**
 * The acts: for each its input, what the model says it does, and how it is sent. There are few users, identities, emails, wallets and external IDs, so
 * that acts meet. A user is named by an identity that they have or had, so that a sequence still means something when it is shrunk.
 */

const inCapitals = (email: string) => email.toUpperCase();
/** An Ethereum address in capitals is another spelling of it. */
const spelled = (address: string) => (address.startsWith('0x') ? `0x${address.slice(2).toUpperCase()}` : address);

const EMAILS = ['ada@example.com', 'bob@example.com', 'cleo@example.com'] as const;
const WALLETS = [ethereumAddress(1), stellarAddress(2)] as const;
const ADDRESSES = [...WALLETS, ethereumAddress(3)] as const;
const EXTERNAL_IDS = ['x-1', 'x-2'] as const;

export const IDENTITIES: readonly IdentityName[] = [
  { authMethod: 'email', authValue: EMAILS[0] },
  { authMethod: 'email', authValue: EMAILS[1] },
  { authMethod: 'google', authValue: 'g-1' },
  { authMethod: 'apple', authValue: EMAILS[0] },
  { authMethod: 'passkey', authValue: 'p-1' },
  ...WALLETS.map((authValue) => ({ authMethod: 'wallet', authValue })),
];

/** What can be asked for. */
export interface Vocabulary {
  readonly emails: readonly string[];
  readonly addresses: readonly string[];
  readonly externalIds: readonly string[];
  readonly identities: readonly IdentityName[];
}
export const VOCABULARY: Vocabulary = {
  emails: EMAILS,
  addresses: ADDRESSES,
  externalIds: EXTERNAL_IDS,
  identities: IDENTITIES,
};

/** Soon is before a later act of time ends it; later is never reached. */
export const [SOON, LATER] = ['2091-01-01T00:00:00.000Z', '2092-01-01T00:00:00.000Z'] as const;

const respelled = ({ authMethod, authValue }: IdentityName): IdentityName => ({
  authMethod,
  authValue: authMethod === 'email' ? inCapitals(authValue) : authMethod === 'wallet' ? spelled(authValue) : authValue,
});
const identity = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...IDENTITIES) },
  { weight: 1, arbitrary: fc.constantFrom(...IDENTITIES.map(respelled)) },
);
/** A user, by an identity. */
const who = fc.constantFrom(...IDENTITIES);
const email = fc.constantFrom(...EMAILS, inCapitals(EMAILS[1]));
const address = fc.constantFrom(...ADDRESSES, spelled(ADDRESSES[0]));
const externalId = fc.constantFrom(...EXTERNAL_IDS);
const metadata = fc.constantFrom({ plan: 'pro' }, { plan: 'free', since: 1 });
const account = fc.constantFrom(...ADDRESSES).map((publicKey) => ({ network: model.networkOf(publicKey), publicKey }));
const absentOr = <Value>(arbitrary: fc.Arbitrary<Value>) => fc.option(arbitrary, { nil: undefined, freq: 2 });
/** Absent, null (which is as absent) or a value. */
const maybe = <Value>(arbitrary: fc.Arbitrary<Value>) =>
  fc.oneof(
    { weight: 4, arbitrary: fc.constant(undefined) },
    { weight: 1, arbitrary: fc.constant(null) },
    { weight: 3, arbitrary },
  );
const banTerms: fc.Arbitrary<GivenTerms> = fc.record({
  reason: maybe(fc.constantFrom('spam', 'fraud')),
  expiresAt: maybe(fc.constantFrom(SOON, LATER)),
  untilLifted: maybe(fc.boolean()),
});

const isNoWallet = ({ authMethod }: IdentityName) => authMethod !== 'wallet';
const isProvider = ({ authMethod }: IdentityName) => authMethod === 'google' || authMethod === 'apple';

/** The last import, the one before, and so on. */
const placeOf = ({ imports }: Project, place: number) => imports.length - 1 - place;

const dates = {
  created_at: maybe(fc.constantFrom('2025-01-01T00:00:00.000Z', '2025-02-01T00:00:00.000Z')),
  last_login: maybe(fc.constantFrom('2025-03-01T00:00:00.000Z', '2025-04-01T00:00:00.000Z')),
};
const identityLine = fc
  .tuple(identity, fc.record({ email: maybe(email), email_verified: maybe(fc.boolean()) }))
  .map(([{ authMethod, authValue }, more]) => ({
    ...{ auth_method: authMethod, auth_value: authValue },
    ...(isProvider({ authMethod, authValue }) ? more : {}),
  }));
const userLine: fc.Arbitrary<UserLine> = fc
  .tuple(
    identityLine,
    fc.record({
      ...dates,
      external_id: maybe(externalId),
      metadata: maybe(metadata),
      login_count: maybe(fc.nat(3)),
      accounts: maybe(
        fc
          .constantFrom(...ADDRESSES)
          .map((public_key) => [{ network: model.networkOf(public_key).toLowerCase(), public_key }]),
      ),
      identities: maybe(fc.tuple(identityLine, fc.record(dates)).map(([one, more]) => [{ ...one, ...more }])),
    }),
  )
  .map(([name, { identities, ...more }]) => ({
    ...{ ...name, ...more },
    // What the primary one says there must be what the line says.
    ...(identities?.some((one) => lineName(one) === lineName(name)) ? {} : { identities }),
  }));
const banLine: fc.Arbitrary<BanLine> = fc
  .tuple(
    who,
    fc.record({
      reason: maybe(fc.constantFrom('spam', 'imported')),
      expires_at: maybe(fc.constantFrom(SOON, LATER)),
      created_at: maybe(fc.constantFrom('2025-05-01T00:00:00.000Z', '2025-06-01T00:00:00.000Z')),
      of_user: maybe(fc.boolean()),
    }),
  )
  .map(([{ authMethod, authValue }, more]) => ({
    ban: { auth_method: authMethod, auth_value: authValue, ...more },
  }));
const lineName = (line: UserLine | BanLine) =>
  'ban' in line
    ? `ban ${line.ban.auth_method} ${line.ban.auth_value}`
    : model.keyOf({ authMethod: line.auth_method, authValue: line.auth_value });

/** How an act came out: `OK`, or the code of its refusal. */
export interface Outcome {
  readonly code: string;
  readonly message: string;
  /** Of an import. */
  readonly importId?: string | null;
  /** Of an act that goes on in another project. */
  readonly hasMoved?: true;
  /** Bans that have ended stand until the service deletes them, at a moment of its own, and then tells of it; or they are deleted. */
  readonly endedBans?: 'stand' | 'deleted';
}

export interface Act<Input> {
  /** How often it is chosen. */
  readonly weight: number;
  readonly input: fc.Arbitrary<Input>;
  /** What the model makes of it; throws `Refused`. */
  apply(project: Project, input: Input): void;
  /** Sends it; `project` is the model before it. */
  send(service: Service, input: Input, project: Project): Promise<Outcome>;
}

const NOBODY = '999999999';

/** The current user with an identity, or else the last who had it. */
export function userOf({ users }: Project, name: IdentityName): User | undefined {
  const having = users.filter((user) => model.has(user, name));
  return having.find(({ state }) => state === 'current') ?? having.at(-1);
}
export const idIn = (project: Project, name: IdentityName): string => userOf(project, name)?.id ?? NOBODY;

/** A user who is not current any more, if there is one. */
const goneIn = (project: Project, name: IdentityName): string =>
  project.users.findLast((user) => user.state !== 'current' && model.has(user, name))?.id ?? idIn(project, name);

/** The IDs of the current users among them, each once. */
const currentOf = (project: Project, names: readonly IdentityName[]) =>
  new Set(
    names.flatMap((name) => {
      const user = userOf(project, name);
      return user?.state === 'current' ? user.id : [];
    }),
  );

/** Types the input of a row. */
const act = <Input>(row: Act<Input>): Act<unknown> => row as Act<unknown>;

/** A command takes as long as ten requests. */
const via = fc.oneof(
  { weight: 15, arbitrary: fc.constant('graphql' as const) },
  { weight: 1, arbitrary: fc.constant('command' as const) },
);
export interface Sent {
  readonly via: 'graphql' | 'command' | 'rest';
}
const senderOf = (by: Sent['via']): model.Sender => (by === 'command' ? 'operator' : 'backend');
const option = (name: string, value: unknown): string[] => (value == null ? [] : [`--${name}`, String(value)]);
const identityOptions = ({ authMethod, authValue }: IdentityName) => ['--method', authMethod, '--value', authValue];

const LOGIN =
  'mutation ($input: RecordLoginInput!, $key: String) { recordLogin(input: $input, idempotencyKey: $key) { user { id } } }';
const LOGIN_ONCE = 'mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { user { id } } }';
const login = (weight: number, input: fc.Arbitrary<LoginInput>) =>
  act<LoginInput>({
    ...{ weight, input },
    apply: model.recordLogin,
    send: (service, given) => service.mutate(LOGIN_ONCE, { input: given }),
  });
const loginWith = (fields: { [Field in keyof LoginInput]?: fc.Arbitrary<LoginInput[Field]> }) =>
  fc.tuple(identity, fc.record(fields)).map(([name, more]) => ({ ...name, ...more }) as LoginInput);

interface OfUser {
  readonly who: IdentityName;
}

export const ACTS: Readonly<Record<string, Act<unknown>>> = {
  'log in': login(6, identity),
  'log in with an email': login(
    4,
    fc
      .tuple(identity.filter(isProvider), fc.record({ email, emailVerified: maybe(fc.boolean()) }))
      .map(([name, more]) => ({ ...name, ...more })),
  ),
  'log in with emailVerified': login(2, loginWith({ emailVerified: fc.boolean() })),
  'log in with a wallet': login(
    2,
    fc.tuple(identity.filter(isNoWallet), address).map(([name, wallet]) => ({ ...name, wallet })),
  ),
  'log in with an external ID': login(3, loginWith({ externalId })),
  'log in with accounts': login(
    2,
    loginWith({
      accounts: fc.uniqueArray(account, { minLength: 1, maxLength: 2, selector: ({ publicKey }) => publicKey }),
    }),
  ),
  'log in with metadata': login(1, loginWith({ metadata })),
  'log in with nulls': login(
    1,
    loginWith({
      email: fc.constant(null),
      wallet: fc.constant(null),
      externalId: fc.constant(null),
      metadata: fc.constant(null),
    }),
  ),
  'log in and link by the external ID': login(4, loginWith({ externalId, linkByExternalId: fc.constant(true) })),
  'log in twice with a key': act<LoginInput & { key: string }>({
    weight: 2,
    input: fc.tuple(identity, fc.uuid()).map(([name, key]) => ({ ...name, key })),
    apply: model.recordLogin,
    async send(service, { key, ...input }) {
      const first = await service.mutate(LOGIN, { input, key });
      // What is refused does not use its key.
      const again = await service.mutate(LOGIN, { input, key });
      return first.code === again.code ? first : { code: `${first.code}, then ${again.code}`, message: again.message };
    },
  }),
  'create a user': act<NewUserInput>({
    weight: 3,
    input: loginWith({
      externalId: maybe(externalId),
      metadata: maybe(metadata),
      accounts: absentOr(account.map((one) => [one])),
    }),
    apply: model.createUser,
    send: (service, input) =>
      service.mutate('mutation ($input: CreateUserInput!) { createUser(input: $input) { user { id } } }', { input }),
  }),
  'change a user': act<OfUser & Sent & { input: UpdateInput }>({
    weight: 5,
    input: fc.record({
      who,
      via,
      input: fc.record({
        email: absentOr(fc.option(email, { freq: 3 })),
        externalId: absentOr(fc.option(externalId, { freq: 3 })),
        metadata: absentOr(fc.option(metadata, { freq: 3 })),
      }),
    }),
    apply: (project, { who: name, input }) => model.updateUser(project, idIn(project, name), input),
    send: (service, { who: name, via: by, input }, project) =>
      by === 'command' && Object.values(input).some((value) => value !== undefined)
        ? service.command('user', 'update', idIn(project, name), ...updateOptions(input))
        : service.mutate(
            'mutation ($id: ID!, $input: UpdateUserInput!) { updateUser(id: $id, input: $input) { user { id } } }',
            {
              ...{ id: idIn(project, name), input },
            },
          ),
  }),
  'patch the metadata of a user': act<OfUser & { metadataPatch: object }>({
    weight: 3,
    input: fc.record({
      who,
      metadataPatch: fc.constantFrom({ plan: null }, { plan: 'max' }, { of: { a: 1 } }, { of: { a: null, b: 2 } }, {}),
    }),
    apply: (project, { who: name, ...input }) => model.updateUser(project, idIn(project, name), input),
    send: (service, { who: name, ...input }, project) =>
      service.mutate(
        'mutation ($id: ID!, $input: UpdateUserInput!) { updateUser(id: $id, input: $input) { user { id } } }',
        { id: idIn(project, name), input },
      ),
  }),
  'link an identity': act<OfUser & Sent & { input: LinkInput }>({
    weight: 6,
    input: fc.record({
      who,
      via,
      input: fc
        .tuple(
          identity,
          fc.record({ email: maybe(email), emailVerified: maybe(fc.boolean()), primary: maybe(fc.boolean()) }),
        )
        .map(([name, more]) => ({
          ...name,
          ...(isProvider(name) ? more : { primary: more.primary }),
        })),
    }),
    apply: (project, { who: name, input }) => model.linkIdentity(project, idIn(project, name), input),
    send: (service, { who: name, via: by, input }, project) =>
      by === 'command' && input.emailVerified !== false
        ? service.command('user', 'link', idIn(project, name), ...linkOptions(input))
        : service.mutate(
            'mutation ($id: ID!, $input: LinkIdentityInput!) { linkIdentity(userId: $id, input: $input) { user { id } } }',
            {
              ...{ id: idIn(project, name), input },
            },
          ),
  }),
  'unlink an identity': act<OfUser & Sent & { identity: IdentityName }>({
    weight: 4,
    input: fc.record({ who, via, identity }),
    apply: (project, { who: name, identity: one }) => model.unlinkIdentity(project, idIn(project, name), one),
    send: (service, { who: name, via: by, identity: one }, project) =>
      by === 'command'
        ? service.command('user', 'unlink', idIn(project, name), ...identityOptions(one))
        : service.mutate(
            'mutation ($id: ID!, $identity: IdentityInput!) { unlinkIdentity(userId: $id, identity: $identity) { user { id } } }',
            {
              ...{ id: idIn(project, name), identity: one },
            },
          ),
  }),
  'unlink their own identity': act<OfUser>({
    weight: 3,
    input: fc.record({ who }),
    apply: (project, { who: name }) => model.unlinkIdentity(project, idIn(project, name), name),
    send: (service, { who: name }, project) =>
      service.mutate(
        'mutation ($id: ID!, $identity: IdentityInput!) { unlinkIdentity(userId: $id, identity: $identity) { user { id } } }',
        {
          ...{ id: idIn(project, name), identity: name },
        },
      ),
  }),
  'unlink an account': act<OfUser & Sent & { address: string }>({
    weight: 3,
    input: fc.record({ who, via, address }),
    apply: (project, { who: name, address: one }) => model.unlinkAccount(project, idIn(project, name), one),
    send: (service, { who: name, via: by, address: one }, project) =>
      by === 'command'
        ? service.command('user', 'unlink', idIn(project, name), '--address', one)
        : service.mutate(
            'mutation ($id: ID!, $address: String!) { unlinkAccount(userId: $id, address: $address) { user { id } } }',
            {
              ...{ id: idIn(project, name), address: one },
            },
          ),
  }),
  'merge users': act<OfUser & Sent & { into: IdentityName }>({
    weight: 4,
    input: fc.record({ who, via, into: who }),
    apply: (project, { who: name, into }) => model.mergeUsers(project, idIn(project, name), idIn(project, into)),
    send: (service, { who: name, via: by, into }, project) =>
      by === 'command'
        ? service.command('user', 'merge', idIn(project, name), idIn(project, into), '--yes')
        : service.mutate('mutation ($from: ID!, $into: ID!) { mergeUsers(from: $from, into: $into) { user { id } } }', {
            ...{ from: idIn(project, name), into: idIn(project, into) },
          }),
  }),
  'remove a user': act<OfUser & Sent>({
    weight: 3,
    input: fc.record({
      who,
      via: fc.oneof(via, fc.constant('rest' as const)),
    }),
    apply: (project, { who: name }) => model.deleteUser(project, idIn(project, name)),
    send: (service, { who: name, via: by }, project) =>
      by === 'rest'
        ? service.rest(`/server/users/${idIn(project, name)}`, { method: 'DELETE' })
        : by === 'command'
          ? service.command('user', 'remove', idIn(project, name))
          : service.mutate('mutation ($id: ID!) { deleteUser(id: $id) { id } }', { id: idIn(project, name) }),
  }),
  'ban a user': act<OfUser & Sent & { terms: GivenTerms }>({
    weight: 3,
    input: fc.record({ who, via, terms: banTerms }),
    apply: (project, { who: name, via: by, terms: given }) =>
      model.banUser(project, idIn(project, name), given, isContradiction(given) ? 'backend' : senderOf(by)),
    send: (service, { who: name, via: by, terms: given }, project) =>
      by === 'command' && !isContradiction(given)
        ? service.command('user', 'ban', idIn(project, name), ...banOptions(given))
        : service.mutate(banDocument('banUser', '$id: ID!', 'id: $id', given, 'user { id }'), {
            ...given,
            id: idIn(project, name),
          }),
  }),
  'remove several users': act<{ several: readonly IdentityName[] }>({
    weight: 1,
    input: fc.record({ several: fc.array(who, { maxLength: 3 }) }),
    apply: (project, { several }) => {
      for (const id of currentOf(project, several)) model.deleteUser(project, id);
    },
    send: (service, { several }, project) =>
      service.mutate('mutation ($ids: [ID!]!) { removeUsers(ids: $ids) { outcomes { ok } } }', {
        ids: several.map((name) => idIn(project, name)),
      }),
  }),
  'ban several users': act<{ several: readonly IdentityName[]; terms: GivenTerms }>({
    weight: 1,
    input: fc.record({ several: fc.array(who, { maxLength: 3 }), terms: banTerms }),
    apply: (project, { several, terms: given }) => {
      model.requireTerms(given);
      for (const id of currentOf(project, several)) model.banUser(project, id, given, 'backend');
    },
    send: (service, { several, terms: given }, project) =>
      service.mutate(banDocument('banUsers', '$ids: [ID!]!', 'ids: $ids', given, 'outcomes { ok }'), {
        ...given,
        ids: several.map((name) => idIn(project, name)),
      }),
  }),
  'ban an identity': act<Sent & { identity: IdentityName; terms: GivenTerms }>({
    weight: 3,
    input: fc.record({ identity, via, terms: banTerms }),
    apply: (project, { identity: one, terms: given }) => model.banIdentity(project, one, given),
    send: (service, { identity: one, via: by, terms: given }) =>
      by === 'command' && !isContradiction(given)
        ? service.command('user', 'ban', ...identityOptions(one), ...banOptions(given))
        : service.mutate(
            banDocument('banIdentity', '$identity: IdentityInput!', 'identity: $identity', given, 'ban { reason }'),
            { ...given, identity: one },
          ),
  }),
  'unban a user': act<OfUser & Sent>({
    weight: 2,
    input: fc.record({ who, via }),
    apply: (project, { who: name, via: by }) => model.unbanUser(project, idIn(project, name), senderOf(by)),
    send: (service, { who: name, via: by }, project) =>
      by === 'command'
        ? service.command('user', 'unban', idIn(project, name))
        : service.mutate('mutation ($id: ID!) { unbanUser(id: $id) { user { id } } }', { id: idIn(project, name) }),
  }),
  'unban an identity': act<Sent & { identity: IdentityName }>({
    weight: 2,
    input: fc.record({ identity, via }),
    apply: (project, { identity: one }) => model.unbanIdentity(project, one),
    send: (service, { identity: one, via: by }) =>
      by === 'command'
        ? service.command('user', 'unban', ...identityOptions(one))
        : service.mutate(
            'mutation ($identity: IdentityInput!) { unbanIdentity(identity: $identity) { user { id } } }',
            {
              identity: one,
            },
          ),
  }),
  'bans that end soon have ended': act<Record<string, never>>({
    weight: 2,
    input: fc.constant({}),
    apply: (project) => model.endBans(project, SOON),
    send: (service) => service.endBans(SOON),
  }),
  'bans that have ended are deleted': act<Record<string, never>>({
    weight: 1,
    input: fc.constant({}),
    apply: () => undefined,
    send: (service) => service.sweep(),
  }),
  'import lines': act<Import & Sent>({
    weight: 5,
    input: fc.record({
      via,
      lines: fc.uniqueArray(fc.oneof({ weight: 4, arbitrary: userLine }, { weight: 1, arbitrary: banLine }), {
        ...{ minLength: 1, maxLength: 3, selector: lineName },
      }),
      onConflict: fc.constantFrom('fail', 'skip', 'update', 'update'),
      replace: fc.boolean(),
      skipInvalid: fc.boolean(),
    }),
    apply: model.importLines,
    send: (service, { via: by, ...given }) => service.importLines(given, by),
  }),
  'move to another project': act<Record<string, never>>({
    weight: 1,
    input: fc.constant({}),
    apply: model.moveProject,
    send: (service) => service.move(),
  }),
  'undo an import': act<Sent & { place: number }>({
    weight: 3,
    input: fc.record({ via, place: fc.nat(2) }),
    apply: (project, { place }) => model.undoImport(project, placeOf(project, place)),
    send: (service, { via: by, place }, project) =>
      service.undoImport(project.imports[placeOf(project, place)] ?? NOBODY, by),
  }),
  'purge removed users': act<Record<string, never>>({
    weight: 1,
    input: fc.constant({}),
    apply: model.purge,
    send: (service) => service.command('user', 'purge', '--older-than', '0s'),
  }),
  'restore a user': act<OfUser & Sent>({
    weight: 3,
    input: fc.record({ who, via }),
    apply: (project, { who: name }) => model.restoreUser(project, goneIn(project, name)),
    send: (service, { who: name, via: by }, project) =>
      by === 'command'
        ? service.command('user', 'restore', goneIn(project, name))
        : service.mutate('mutation ($id: ID!) { restoreUser(id: $id) { user { id } } }', { id: goneIn(project, name) }),
  }),
};

const TERM_TYPES: Readonly<Record<keyof GivenTerms, string>> = {
  reason: 'String',
  expiresAt: 'String',
  untilLifted: 'Boolean',
};
/** With a variable for each term that is given: a variable without a value is refused. */
function banDocument(mutation: string, declared: string, passed: string, given: GivenTerms, answer: string): string {
  const terms = Object.entries(TERM_TYPES).filter(([term]) => given[term as keyof GivenTerms] !== undefined);
  const variables = [declared, ...terms.map(([term, type]) => `$${term}: ${type}`)];
  const values = [passed, ...terms.map(([term]) => `${term}: $${term}`)];
  return `mutation (${variables.join(', ')}) { ${mutation}(${values.join(', ')}) { ${answer} } }`;
}
/** An end and none at once, which the one option of the command cannot say. */
const isContradiction = ({ expiresAt, untilLifted }: GivenTerms) => untilLifted === true && expiresAt != null;
const banOptions = ({ reason, expiresAt, untilLifted }: GivenTerms): string[] => [
  ...option('reason', reason),
  ...(untilLifted ? ['--until', ''] : option('until', expiresAt)),
];

const updateOptions = ({ email: mail, externalId: id, metadata: more }: UpdateInput): string[] => [
  ...(mail === undefined ? [] : ['--email', mail ?? '']),
  ...(id === undefined ? [] : ['--external-id', id ?? '']),
  ...(more === undefined ? [] : ['--metadata', more === null ? '' : JSON.stringify(more)]),
];
const linkOptions = ({ authMethod, authValue, email: mail, emailVerified, primary }: LinkInput): string[] => [
  ...identityOptions({ authMethod, authValue }),
  ...option('email', mail),
  ...(emailVerified ? ['--email-verified'] : []),
  ...(primary ? ['--primary'] : []),
];

/** An act with its input, as a sequence has it. */
export interface Step {
  readonly name: string;
  readonly input: unknown;
}

/** Acts that meet in a subject. */
export const THEMES: Readonly<Record<string, readonly string[]>> = {
  bans: [
    ...['create a user', 'link an identity', 'unlink their own identity', 'ban a user', 'ban an identity'],
    'bans that end soon have ended',
  ],
  'bans that move': ['create a user', 'link an identity', 'ban a user', 'merge users', 'move to another project'],
  'persons who are gone': ['create a user', 'merge users', 'remove a user', 'restore a user', 'purge removed users'],
  imports: ['import lines', 'undo an import', 'link an identity', 'merge users', 'change a user', 'ban an identity'],
  emails: [
    ...['log in with an email', 'log in with emailVerified', 'log in', 'link an identity', 'change a user'],
    ...['ban an identity', 'move to another project'],
  ],
  wallets: ['create a user', 'log in with a wallet', 'log in', 'link an identity', 'move to another project'],
  'external IDs': [
    ...['log in with an external ID', 'log in and link by the external ID', 'ban a user', 'unlink their own identity'],
    'change a user',
  ],
};

export const ACT_NAMES: readonly string[] = Object.keys(ACTS);

/** A step of any act, or of the acts that are named. */
export const stepOf = (names: readonly string[]): fc.Arbitrary<Step> =>
  fc.oneof(
    ...names.map((name) => {
      const { weight, input } = ACTS[name] as Act<unknown>;
      return { weight, arbitrary: input.map((given): Step => ({ name, input: given })) };
    }),
  );
