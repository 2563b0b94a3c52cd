import type { Services } from '../context.js';
import { MAX_ACCOUNTS, MAX_IDENTITIES } from '../domain/identities.js';
import { KEPT_TEXTS, ofKeptTexts } from '../domain/kept-texts.js';
import { parse, userId } from '../domain/parse.js';
import { noUser, type UserDetails, type UserIdentity } from '../domain/users.js';
import { badInput } from '../errors.js';
import { instantOrNull, orNull, required } from '../graphql/shared.js';
import { builder, loginMethodEnum } from './builder.js';
import { projectType } from './projects.js';
import { userType } from './users.js';

/* The identities by which users log in, and what is kept with a user; users who turn out to be one person. */

const identityType = builder.objectRef<UserIdentity>('Identity').implement({
  description: 'What a user logs in with.',
  fields: (t) => ({
    authMethod: t.exposeString('authMethod', { description: 'The method.' }),
    authValue: t.exposeString('authValue', { description: 'The value, spelled as it was registered.' }),
    loginMethod: t.expose('loginMethod', { type: loginMethodEnum, description: 'The kind of login.' }),
    email: t.exposeString('loginEmail', orNull('The email that came with it; null where none did.')),
    emailVerified: t.exposeBoolean('emailVerified', orNull('Whether that email was verified; null where unknown.')),
    createdAt: t.expose('createdAt', { type: 'DateTime', description: 'Since when it is that of the user.' }),
    lastLogin: t.expose('lastLogin', instantOrNull('The most recent login by it; null when none was recorded.')),
    isPrimary: t.exposeBoolean('isPrimary', { description: 'Whether it is the one in `User.authMethod`.' }),
  }),
});

builder.objectFields(userType, (t) => ({
  identities: t.field({
    type: [identityType],
    description: 'What the user logs in with: the primary identity first, then the oldest.',
    resolve: async ({ id, project }, _args, { services }) => [
      ...(await services.identities.detailsOf(project.scope, id)).identities,
    ],
  }),
  metadata: t.field({
    type: 'JSON',
    nullable: true,
    description: 'What a backend keeps with the user: a JSON object; null where there is none.',
    resolve: async ({ id, project }, _args, { services }) =>
      (await services.identities.detailsOf(project.scope, id)).metadata,
  }),
  mergedInto: t.id({
    nullable: true,
    description: 'The user whom a removed one has become by a merge; null for any other.',
    resolve: ({ mergedInto }) => mergedInto,
  }),
}));

interface Effect {
  readonly name: string;
  readonly text: string;
}

const effectType = builder.objectRef<Effect>('MergeEffect').implement({
  description: 'What a merge would do with something of the two users.',
  fields: (t) => ({
    name: t.exposeString('name', { description: 'Of what.' }),
    text: t.exposeString('text', { description: 'What would become of it, in words.' }),
  }),
});

type Side = UserDetails & Awaited<ReturnType<Services['identities']['detailsOf']>>;

/** What becomes of something that only one can have. */
function keptOf(name: string, from: string | null, into: string | null): Effect[] {
  if (from === null && into === null) return [];
  if (into === null) return [{ name, text: `${from} moves.` }];
  return [{ name, text: `${into} stays${from === null ? '' : `, ${from} is given up`}.` }];
}

/** Says what `mergeUsers` (users/identities.sql.ts) would do. */
function effectsOf(from: Side, into: Side): Effect[] {
  const identities = from.identities.map(({ authMethod, authValue }) => `${authMethod} ${authValue}`);
  const addresses = new Set(into.accounts.map(({ publicKey }) => publicKey.toLowerCase()));
  const accounts = from.accounts.filter(({ publicKey }) => !addresses.has(publicKey.toLowerCase()));
  const isTooMuch =
    from.identities.length + into.identities.length > MAX_IDENTITIES ||
    accounts.length + into.accounts.length > MAX_ACCOUNTS;
  const metadataOf = ({ id, metadata }: Side) => metadata && `that of user ${id}`;
  return [
    { name: 'Identities', text: `${identities.join(', ')} → user ${into.id}` },
    { name: 'Accounts', text: accounts.map(({ publicKey }) => publicKey).join(', ') || 'None is new.' },
    { name: 'Logins', text: `${from.loginCount} + ${into.loginCount} = ${from.loginCount + into.loginCount}` },
    { name: 'Created', text: [from.createdAt, into.createdAt].sort()[0] as string },
    ...Object.values(ofKeptTexts((field) => keptOf(KEPT_TEXTS[field].label, from[field], into[field]))).flat(),
    ...keptOf('Metadata', metadataOf(from), metadataOf(into)),
    ...(from.ban || into.ban ? [{ name: 'Ban', text: 'The ban of a user is then of all identities.' }] : []),
    ...(isTooMuch
      ? [{ name: 'Refused', text: `Beyond ${MAX_IDENTITIES} identities or ${MAX_ACCOUNTS} accounts.` }]
      : []),
  ];
}

const FROM = required('The ID of the user who goes.');
const INTO = required('The ID of the user who stays.');
const [fromId, intoId] = [userId('from'), userId('into')];

builder.objectField(projectType, 'mergePreview', (t) =>
  t.field({
    type: [effectType],
    description: 'What `mergeUsers` would do now. NOT_FOUND; BAD_USER_INPUT.',
    args: { from: t.arg.id(FROM), into: t.arg.id(INTO) },
    resolve: async ({ scope }, { from, into }, { services }) => {
      const ids = [parse(fromId, from), parse(intoId, into)];
      if (ids[0] === ids[1]) throw badInput('into', into, 'another user');
      const [first, second] = await Promise.all(
        ids.map(async (id): Promise<Side> => {
          const user = await services.users.describeUser(scope, id);
          if (user === null || user.removedAt !== null) throw noUser(id);
          return { ...user, ...(await services.identities.detailsOf(scope, user.id)) };
        }),
      );
      return effectsOf(first as Side, second as Side);
    },
  }),
);
