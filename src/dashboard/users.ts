import { METHOD_FORM_IN_CODE } from '../domain/auth-methods.js';
import { MAX_REMOVED } from '../domain/bounds.js';
import { userFilter } from '../domain/filters.js';
import { parseIdentity } from '../domain/identities.js';
import { KEPT_TEXTS, ofKeptTexts } from '../domain/kept-texts.js';
import { parse, userId } from '../domain/parse.js';
import type { OpenProject } from '../domain/projects.js';
import { camelCase } from '../domain/spelling.js';
import type { Account, BanOfUser, User, UserDetails } from '../domain/users.js';
import { checksumAddress, parseAddress } from '../domain/wallets.js';
import { costs } from '../engine/cost.js';
import { ACCOUNT_FIELDS, BAN_FIELDS, USER_FIELDS } from '../graphql/fields.js';
import { orNull, required, withDefault } from '../graphql/shared.js';
import { builder, loginMethodEnum, networkEnum, WHOLE_COST, walletTypeEnum } from './builder.js';
import { connectionType, firstArgument, readLimit } from './paging.js';
import { projectType } from './projects.js';

/** A user with the project to which they belong, for the fields that ask for more. */
interface ProjectUser extends User {
  readonly project: OpenProject;
  /** Known of a user who was looked up; a user in a list is current. */
  readonly removedAt?: string | null;
  readonly mergedInto?: number | null;
  /** Known of a user who was looked up. */
  readonly ban?: BanOfUser | null;
}

export const within =
  (project: OpenProject) =>
  (user: User | UserDetails): ProjectUser => ({ ...user, project });

const banOfUserType = builder.objectRef<BanOfUser>('BanOfUser').implement({
  description: 'The ban of a user or of an identity.',
  fields: (t) => ({
    createdAt: t.expose('createdAt', BAN_FIELDS.createdAt),
    authMethod: t.exposeString('authMethod', BAN_FIELDS.authMethod),
    authValue: t.exposeString('authValue', BAN_FIELDS.authValue),
    isOfUser: t.exposeBoolean('isOfUser', BAN_FIELDS.isOfUser),
    reason: t.exposeString('reason', BAN_FIELDS.reason),
    expiresAt: t.expose('expiresAt', BAN_FIELDS.expiresAt),
  }),
});

export const userType = builder.objectRef<ProjectUser>('User').implement({
  description: 'A user of a project: a current one, or one who was removed and is not erased yet.',
  fields: (t) => ({
    id: t.exposeID('id', USER_FIELDS.id),
    authMethod: t.exposeString('authMethod', USER_FIELDS.authMethod),
    authValue: t.exposeString('authValue', USER_FIELDS.authValue),
    loginMethod: t.expose('loginMethod', { type: loginMethodEnum, ...USER_FIELDS.loginMethod }),
    email: t.exposeString('loginEmail', USER_FIELDS.email),
    wallet: t.exposeString('wallet', USER_FIELDS.wallet),
    ...ofKeptTexts((field) => t.exposeString(field, orNull(`${KEPT_TEXTS[field].meaning}; null if none.`))),
    createdAt: t.expose('createdAt', USER_FIELDS.createdAt),
    lastLogin: t.expose('lastLogin', USER_FIELDS.lastLogin),
    loginCount: t.exposeInt('loginCount', USER_FIELDS.loginCount),
    removedAt: t.field({
      type: 'DateTime',
      nullable: true,
      description: 'When the user was removed; null for a current user.',
      resolve: ({ removedAt = null }) => removedAt,
    }),
    ban: t.field({
      type: banOfUserType,
      nullable: true,
      description:
        'The ban of the user or else, of those of their identities, the one that ends last; null where none is banned.',
      resolve: ({ id, project, ban }, _args, { services }) =>
        ban === undefined ? services.bans.banOfUser(project.scope, id) : ban,
    }),
    accounts: t.field({
      type: [accountType],
      description: 'The accounts linked to the user, oldest first.',
      resolve: ({ id, accounts, project }, _args, { services }) =>
        accounts ?? services.accounts.listAccounts(project.scope, id),
    }),
  }),
});

const accountType = builder.objectRef<Account>('Account').implement({
  description: 'A blockchain account linked to a user.',
  fields: (t) => ({
    id: t.exposeID('id', ACCOUNT_FIELDS.id),
    network: t.expose('network', { type: networkEnum, ...ACCOUNT_FIELDS.network }),
    publicKey: t.exposeString('publicKey', ACCOUNT_FIELDS.publicKey),
    checksummed: t.string({
      description: 'The address with its checksum: for Ethereum in the case of EIP-55, for Stellar as it is.',
      resolve: ({ publicKey }) => checksummed(publicKey),
    }),
    walletType: t.expose('walletType', { type: walletTypeEnum, ...ACCOUNT_FIELDS.walletType }),
  }),
});

function checksummed(publicKey: string): string {
  const address = parseAddress(publicKey);
  return 'reason' in address || address.network !== 'ethereum' ? publicKey : checksumAddress(address.key);
}

const removedConnectionType = connectionType<ProjectUser & { at: string }>('RemovedUserConnection', userType, {
  description: 'A page of removed users, by the time of their removal.',
});

const idArgument = userId('id');

builder.objectFields(projectType, (t) => ({
  userCount: t.int({
    description: 'The exact number of its current users.',
    resolve: ({ scope }, _args, { services }) => services.users.countUsers(scope, userFilter({})),
  }),
  removedUserCount: t.int({
    description: 'How many users were removed longer ago than a time, and are not erased yet. Needs ADMIN.',
    args: { olderThanSeconds: t.arg.float(required('The time.')) },
    extensions: costs({ surcharge: WHOLE_COST }),
    resolve: ({ scope }, { olderThanSeconds }, { services }) =>
      services.users.countRemoved(scope, olderThanSeconds * 1_000),
  }),
  user: t.field({
    type: userType,
    nullable: true,
    description: 'A user by ID, also one who was removed and is not erased yet; null if there is none.',
    args: { id: t.arg.id(required('The user ID.')) },
    resolve: async (project, { id }, { services }) => {
      const user = await services.users.describeUser(project.scope, parse(idArgument, id));
      return user && within(project)(user);
    },
  }),
  removedUsers: t.field({
    type: removedConnectionType,
    description: 'The users who were removed and are not erased yet, the last removed first.',
    args: {
      oldestFirst: t.arg.boolean(withDefault(false, 'The first removed first instead.')),
      first: t.arg.int(firstArgument(50)),
      after: t.arg.string({ description: 'A cursor: only those after it in this order.' }),
    },
    resolve: async (project, { oldestFirst, first, after }, { services }) => {
      const { users, next } = await services.users.listRemoved(project.scope, {
        after: after ?? null,
        limit: readLimit('first', first),
        order: oldestFirst ? 'oldest first' : 'newest first',
      });
      const nodes = users.map((user) => ({ ...within(project)(user), at: user.removedAt }));
      return { nodes, hasNextPage: next !== null, hasPreviousPage: after != null };
    },
  }),
  removedUsersByIdentity: t.field({
    type: [userType],
    description: `At most ${MAX_REMOVED} removed users who had an identity, newest first.`,
    args: {
      authMethod: t.arg.string(required(`The method: ${METHOD_FORM_IN_CODE}.`)),
      authValue: t.arg.string(required('The login email, the address, or the ID at the provider or of the passkey.')),
    },
    resolve: async (project, given, { services }) =>
      (await services.users.findRemovedByIdentity(project.scope, parseIdentity(given, camelCase))).map(within(project)),
  }),
  findUsers: t.field({
    type: [userType],
    description:
      'The users whom a text means, newest first: a user ID (also of a removed user), a login email, an address, or else the value of an identity under any method; and in any case an external ID.',
    args: {
      any: t.arg.string(required('What is known of the user.')),
      removed: t.arg.boolean(withDefault(false, `At most ${MAX_REMOVED} removed users instead of current ones.`)),
    },
    resolve: async (project, { any, removed }, { services }) =>
      (await services.users.searchAny(project.scope, any, removed)).map(within(project)),
  }),
}));
