import type { GraphQLResolveInfo } from 'graphql';
import { METHOD_FORM_IN_CODE } from '../domain/auth-methods.js';
import { MAX_IDS, METHODS_BY_PREFIX, MOST_BY_PREFIX, PAGE_SIZE } from '../domain/bounds.js';
import { MAX_ACCOUNTS, parseIdentity, parsePrefix, requireEmail, requireExternalId } from '../domain/identities.js';
import { INPUT_LIMITS } from '../domain/input-limits.js';
import { KEPT_TEXTS, ofKeptTexts } from '../domain/kept-texts.js';
import { readEach } from '../domain/pages.js';
import { parse, parseEachId, readAll, readNumber, userId } from '../domain/parse.js';
import { camelCase } from '../domain/spelling.js';
import type { Beginning, User } from '../domain/users.js';
import { requireAddress } from '../domain/wallets.js';
import { costs, type Rows } from '../engine/cost.js';
import { selects } from '../engine/nodes.js';
import { builder, loginMethodEnum, networkEnum, SURCHARGES, walletTypeEnum } from './builder.js';
import { ACCOUNT_FIELDS, USER_FIELDS } from './fields.js';
import { orNull, required, withDefault } from './shared.js';

/** Most users have few accounts. */
const ACCOUNTS_PER_USER: Rows = { otherwise: 3, atMost: MAX_ACCOUNTS };
/** An email or an address nearly always belongs to one user. */
const USERS_PER_SEARCH: Rows = { otherwise: 3, atMost: Number.POSITIVE_INFINITY };

const firstId = userId('id');

/** The parts of the users to read for a field. */
const partsOf = (info: GraphQLResolveInfo) => ({ withAccounts: selects(info, 'User.accounts') });

/** The cost of looking up a user for each item of a list. Users beyond one an item are charged when they are read. */
function costOfEach(list: string, atMost = MAX_IDS) {
  return costs({
    surcharge: SURCHARGES.search,
    rows: { of: [list], otherwise: 0, atMost },
    items: { of: [list], each: SURCHARGES.id },
  });
}

export const userType = builder.prismaObject('User', {
  description:
    'A current user of the project. A user who was removed is in no answer, except to a retry with an `idempotencyKey`.',
  directives: { key: { fields: 'id' } },
  fields: (t) => ({
    id: t.exposeID('id', USER_FIELDS.id),
    authMethod: t.exposeString('authMethod', USER_FIELDS.authMethod),
    loginMethod: t.expose('loginMethod', { type: loginMethodEnum, ...USER_FIELDS.loginMethod }),
    authValue: t.exposeString('authValue', USER_FIELDS.authValue),
    email: t.exposeString('loginEmail', USER_FIELDS.email),
    wallet: t.exposeString('wallet', USER_FIELDS.wallet),
    ...ofKeptTexts((field) => t.exposeString(field, orNull(KEPT_TEXTS[field].shown))),
    createdAt: t.expose('createdAt', USER_FIELDS.createdAt),
    lastLogin: t.expose('lastLogin', USER_FIELDS.lastLogin),
    loginCount: t.exposeInt('loginCount', USER_FIELDS.loginCount),
    accounts: t.field({
      type: [accountType],
      description:
        'The accounts linked to the user, oldest first: custodial ones, and the external wallet if there is one.',
      extensions: costs({ rows: ACCOUNTS_PER_USER }),
      resolve: (user, _args, { scope, services }) => user.accounts ?? services.accounts.listAccounts(scope, user.id),
    }),
  }),
});

const usersByPrefixType = builder.objectRef<Beginning<User>>('UsersByPrefix').implement({
  description: 'The first users who were found by the beginning of a text.',
  fields: (t) => ({
    users: t.expose('users', { type: [userType], description: 'The users, each once.' }),
    hasMore: t.exposeBoolean('hasMore', {
      description: `Whether there are more users than \`first\`, or may be, because the project has more than ${METHODS_BY_PREFIX} login methods.`,
    }),
  }),
});

const searchInput = builder.inputType('UserSearch', {
  description: 'What to search by. Give exactly one of the fields.',
  isOneOf: true,
  fields: (t) => ({
    email: t.string({ description: 'The whole login email. Upper and lower case are the same.' }),
    address: t.string({
      description: 'The address of a custodial account or of an external wallet: Stellar (`G…`) or Ethereum (`0x…`).',
    }),
  }),
});

export const AUTH_METHOD = required(`${METHOD_FORM_IN_CODE} in lower case, such as \`google\`.`);
export const AUTH_VALUE = required(
  'The email address, the wallet address, or the ID at the provider or of the passkey.',
);

export const identityInput = builder.inputType('IdentityInput', {
  description: 'What a user logs in with.',
  fields: (t) => ({
    authMethod: t.string(AUTH_METHOD),
    authValue: t.string(AUTH_VALUE),
  }),
});

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a declaration for each field
builder.queryFields((t) => ({
  user: t.field({
    type: userType,
    nullable: true,
    description: 'One user by ID; null when the project has no such user.',
    args: { id: t.arg.id(required('The user ID, as an integer or as a string of digits.')) },
    extensions: costs({ surcharge: SURCHARGES.search }),
    resolve: (_root, { id }, { scope, services }, info) =>
      services.users.findUser(scope, parse(firstId, id), partsOf(info)),
  }),
  userByIdentity: t.field({
    type: userType,
    nullable: true,
    description:
      'The user who logs in with this identity, primary or linked, as `recordLogin` was given it; null when the project has no such user. Identities are compared as there: emails without regard to case, addresses in any spelling, other values exactly.',
    args: {
      authMethod: t.arg.string(AUTH_METHOD),
      authValue: t.arg.string(AUTH_VALUE),
    },
    extensions: costs({ surcharge: SURCHARGES.search }),
    resolve: (_root, identity, { scope, services }, info) =>
      services.users.findIdentity(scope, parseIdentity(identity, camelCase), partsOf(info)),
  }),
  userByExternalId: t.field({
    type: userType,
    nullable: true,
    description:
      'The user with this ID in your own system, as `recordLogin` or an import was given it; null when the project has no such user. It is compared exactly: upper and lower case differ.',
    args: { externalId: t.arg.string(required("The user's ID in your own system.")) },
    extensions: costs({ surcharge: SURCHARGES.search }),
    resolve: (_root, { externalId }, { scope, services }, info) =>
      services.users.findByExternalId(scope, requireExternalId('externalId', externalId), partsOf(info)),
  }),
  usersByIds: t.field({
    type: [userType],
    nullable: { list: false, items: true },
    description:
      'Users by their IDs, in the order of `ids`, with null in the place of each whom the project does not have.',
    args: { ids: t.arg.idList(required(`The user IDs, at most ${MAX_IDS}.`)) },
    extensions: costOfEach('ids'),
    resolve: (_root, { ids }, { scope, services }, info) => {
      const parts = partsOf(info);
      const wantedIds = readEach('ids', ids, parseEachId);
      return Promise.all(wantedIds.map((id) => services.users.findUser(scope, id, parts)));
    },
  }),
  usersByIdentities: t.field({
    type: [userType],
    nullable: { list: false, items: true },
    description:
      'The users who log in with these identities, in the order of `identities`, with null in the place of each whom the project does not have. Each is found as by `userByIdentity`.',
    args: {
      identities: t.arg({
        type: [identityInput],
        ...required(`The identities, at most ${MAX_IDS}.`),
      }),
    },
    extensions: costOfEach('identities'),
    resolve: (_root, args, { scope, services }, info) => {
      const parts = partsOf(info);
      const identities = readEach('identities', args.identities, (name, identity) =>
        parseIdentity(identity, (field) => `${name}.${camelCase(field)}`),
      );
      return Promise.all(identities.map((identity) => services.users.findIdentity(scope, identity, parts)));
    },
  }),
  usersByExternalIds: t.field({
    type: [userType],
    nullable: { list: false, items: true },
    description:
      'The users with these IDs in your own system, in the order of `externalIds`, with null in the place of each whom the project does not have. Each is found as by `userByExternalId`.',
    args: {
      externalIds: t.arg.stringList(required(`The users' IDs in your own system, at most ${MAX_IDS}.`)),
    },
    extensions: costOfEach('externalIds'),
    resolve: (_root, args, { scope, services }, info) => {
      const parts = partsOf(info);
      const externalIds = readEach('externalIds', args.externalIds, requireExternalId);
      return Promise.all(externalIds.map((externalId) => services.users.findByExternalId(scope, externalId, parts)));
    },
  }),
  usersByEmails: t.field({
    type: t.listRef(t.listRef(userType)),
    description:
      'For each of some login emails, in their order, all users who have it, newest first: one email can belong to several, or to none. Each is found as by `searchUsers`.',
    args: { emails: t.arg.stringList(required(`The whole login emails, at most ${MAX_IDS}.`)) },
    extensions: costOfEach('emails', Number.POSITIVE_INFINITY),
    resolve: async (_root, args, { scope, services }, info) =>
      services.users.searchByEmails(scope, readEach('emails', args.emails, requireEmail), partsOf(info)),
  }),
  searchUsers: t.field({
    type: [userType],
    description:
      'All users with this login email or address, newest first: one email can belong to several. Where a security decision hangs on an address, use `verifyWallet`.',
    args: { by: t.arg({ type: searchInput, required: true, description: 'The email or the address to search by.' }) },
    extensions: costs({ surcharge: SURCHARGES.search, rows: USERS_PER_SEARCH }),
    resolve: (_root, { by }, { scope, services }, info) => {
      const parts = partsOf(info);
      return typeof by.email === 'string'
        ? services.users.searchByEmail(scope, requireEmail('email', by.email), parts)
        : services.users.searchByAddress(scope, requireAddress('address', by.address ?? ''), parts);
    },
  }),
  usersByPrefix: t.field({
    type: usersByPrefixType,
    description: `Current users whose login email, \`authValue\` or external ID begins with a text, in alphabetical order of what begins so: for a search box that proposes users while one types. The \`authValue\` is searched only in the first ${METHODS_BY_PREFIX} login methods of the project, in alphabetical order. To find a user by the ID, use \`user\`; by a whole value, \`searchUsers\` or \`findUser\`.`,
    args: {
      prefix: t.arg.string(
        required(
          `The beginning, 1 to ${INPUT_LIMITS.authValue.max} bytes. Emails and addresses of Ethereum begin with it in any case, other values exactly. White space at its ends is ignored.`,
        ),
      ),
      first: t.arg.int(withDefault(PAGE_SIZE.default, `The number of users, 1 to ${MOST_BY_PREFIX}.`)),
    },
    extensions: costs({
      surcharge: SURCHARGES.prefix,
      rows: { of: ['first'], otherwise: PAGE_SIZE.default, atMost: MOST_BY_PREFIX },
    }),
    resolve: (_root, { prefix, first }, { scope, services }, info) => {
      const [limit, beginning] = readAll(
        () => readNumber('first', first, MOST_BY_PREFIX),
        () => parsePrefix('prefix', prefix),
      );
      return services.users.findPrefix(scope, beginning, { limit, ...partsOf(info) });
    },
  }),
  findUser: t.field({
    type: [userType],
    description:
      "The current users whom a text means, newest first, for people who search in one box: a user ID, a login email, an address, or an ID of your own system (`externalId`). Usually one or none; one email can belong to several. Where you know what a value is, ask by it: another user's external ID may look like an ID or an email.",
    args: {
      any: t.arg.string(
        required('A user ID, a login email, an address, or an external ID, whole. White space at its ends is ignored.'),
      ),
    },
    // An external ID may look like any of the others, so each text is looked up twice.
    extensions: costs({ surcharge: 2 * SURCHARGES.search, rows: USERS_PER_SEARCH }),
    resolve: (_root, { any }, { scope, services }, info) => services.users.findAny(scope, 'any', any, partsOf(info)),
  }),
}));

export const accountType = builder.prismaObject('Account', {
  description: 'A blockchain account linked to a user. The service knows its public address only, never a private key.',
  fields: (t) => ({
    id: t.exposeID('id', ACCOUNT_FIELDS.id),
    network: t.expose('network', { type: networkEnum, ...ACCOUNT_FIELDS.network }),
    publicKey: t.exposeString('publicKey', ACCOUNT_FIELDS.publicKey),
    walletType: t.expose('walletType', { type: walletTypeEnum, ...ACCOUNT_FIELDS.walletType }),
  }),
});
