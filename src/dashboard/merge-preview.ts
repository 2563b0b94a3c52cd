import { MAX_ACCOUNTS, MAX_IDENTITIES } from '../domain/identities.js';
import { KEPT_TEXTS, ofKeptTexts } from '../domain/kept-texts.js';
import { parse, userId } from '../domain/parse.js';
import { type FieldsWith, type MergePolicy, selectColumns } from '../domain/user-columns.js';
import { noUser, type UserDetail, type UserDetails } from '../domain/users.js';
import { badInput } from '../errors.js';
import { required } from '../graphql/shared.js';
import { builder } from './builder.js';
import { projectType } from './projects.js';

/* What a merge of two users would do, in words, before it is done. */

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

type Side = UserDetails & UserDetail;
type Value = string | number;

/** What becomes of the values of two users, of which at least one has one. Absent where a merge does nothing that a person could ask about. */
const TEXTS = {
  'own or other': (from, into) => {
    if (into === null) return `${from} moves.`;
    return `${into} stays${from === null ? '' : `, ${from} is given up`}.`;
  },
  least: (from, into) => `${inOrder(from, into)[0]}`,
  greatest: (from, into) => `${inOrder(from, into).at(-1)}`,
  sum: (from, into) => `${from} + ${into} = ${Number(from) + Number(into)}`,
} satisfies { readonly [Policy in MergePolicy]?: (from: Value | null, into: Value | null) => string };

type ToldPolicy = keyof typeof TEXTS;

/** Those that are there, from the least. Instants are ISO 8601, which as texts are in the order of time. */
function inOrder(...values: readonly (Value | null)[]): Value[] {
  return values.filter((value) => value !== null).sort((one, other) => (one < other ? -1 : 1));
}

type MergedField = FieldsWith<{ whenMerged: ToldPolicy }>;

/** What people call such a value. A column of the table that is not here is a compile error. */
const LABELS: { readonly [Field in MergedField]: string } = {
  wallet: 'Wallet',
  createdAt: 'Created',
  lastLogin: 'Last login',
  loginCount: 'Logins',
  ...ofKeptTexts((field) => KEPT_TEXTS[field].label),
  metadata: 'Metadata',
};

function shownOf(side: Side, field: MergedField): Value | null {
  if (field === 'metadata') return side.metadata && `that of user ${side.id}`;
  return side[field];
}

/** What becomes of the values in the columns of the two, by the table of columns. */
function effectsOfColumns(from: Side, into: Side): Effect[] {
  return selectColumns(({ whenMerged }) => whenMerged in TEXTS).flatMap(({ whenMerged, ...column }) => {
    const field = column.field as MergedField;
    const values = [shownOf(from, field), shownOf(into, field)] as const;
    if (values.every((value) => value === null)) return [];
    return [{ name: LABELS[field], text: TEXTS[whenMerged as ToldPolicy](...values) }];
  });
}

/** Says what `mergeUsers` (users/identities.sql.ts) would do. */
function effectsOf(from: Side, into: Side): Effect[] {
  const identities = from.identities.map(({ authMethod, authValue }) => `${authMethod} ${authValue}`);
  const addresses = new Set(into.accounts.map(({ publicKey }) => publicKey.toLowerCase()));
  const accounts = from.accounts.filter(({ publicKey }) => !addresses.has(publicKey.toLowerCase()));
  const isTooMuch =
    from.identities.length + into.identities.length > MAX_IDENTITIES ||
    accounts.length + into.accounts.length > MAX_ACCOUNTS;
  return [
    { name: 'Identities', text: `${identities.join(', ')} → user ${into.id}` },
    { name: 'Accounts', text: accounts.map(({ publicKey }) => publicKey).join(', ') || 'None is new.' },
    ...effectsOfColumns(from, into),
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
