import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { AppError } from '../errors.js';
import type { Account } from '../services/accounts.js';
import { requireAddress } from '../services/addresses.js';
import { dateBound, limit, loginMethods, page, says, userFilter, userId } from '../services/filters.js';
import { requireEmail } from '../services/identities.js';
import type { ProjectScope } from '../services/projects.js';
import type { Services } from '../services/services.js';
import type { User } from '../services/users.js';
import { answer, failures, message, userObject } from './shapes.js';

const filterParameters = {
  start_date: dateBound('start_date', 'first').optional(),
  end_date: dateBound('end_date', 'last').optional(),
  login_method: loginMethods('login_method').optional(),
};
const filterQuery = z.object(filterParameters);
const listQuery = z.object({ ...filterParameters, page, limit });
const searchQuery = z.object({
  email: z
    .string({ error: says('email', 'one email address') })
    .optional()
    .meta({
      description: 'Exact, case-insensitive match on the login email.',
      examples: ['ada@example.com'],
    }),
  address: z
    .string({ error: says('address', 'one address') })
    .optional()
    .meta({
      description: 'Stellar (G…) or Ethereum (0x…) address of a custodial account or an external login wallet.',
      examples: ['GA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVSGZ'],
    }),
});
const userPath = z.object({ user_id: userId('user_id') });

type FilterQuery = z.output<typeof filterQuery>;

/** The five user routes (spec, "Endpoints"). */
export const userRoutes: FastifyPluginAsyncZod<{ services: Services }> = async (app, { services }) => {
  const { users, accounts } = services;

  async function toUserObject(scope: ProjectScope, user: User) {
    return userObjectOf(user, await accounts.listAccounts(scope, user.id));
  }
  const toUserObjects = (scope: ProjectScope, found: User[]) =>
    Promise.all(found.map((user) => toUserObject(scope, user)));

  app.get(
    '/users',
    {
      schema: {
        summary: 'List users, newest first',
        tags: ['users'],
        querystring: listQuery,
        response: {
          200: answer(z.object({ page: z.int(), limit: z.int(), total_user: z.int(), users: z.array(userObject) })),
          ...failures(400, 401),
        },
      },
    },
    async ({ scope, query }) => {
      const found = await users.listPage(scope, toFilter(query), query);
      return {
        message: 'Users listed.',
        result: {
          page: query.page,
          limit: query.limit,
          total_user: found.total,
          users: await toUserObjects(scope, found.users),
        },
      };
    },
  );

  app.get(
    '/users/count',
    {
      schema: {
        summary: 'Count users with the filters of the list',
        tags: ['users'],
        querystring: filterQuery,
        response: { 200: answer(z.object({ total_user: z.int() })), ...failures(400, 401) },
      },
    },
    async ({ scope, query }) => ({
      message: 'Users counted.',
      result: { total_user: await users.countUsers(scope, toFilter(query)) },
    }),
  );

  app.get(
    '/users/search',
    {
      schema: {
        summary: 'Search users by login email or by address',
        description: 'Exactly one of the two parameters. For a decision about an address use wallet verification.',
        tags: ['users'],
        querystring: searchQuery,
        response: {
          200: answer(z.object({ total_user: z.int(), users: z.array(userObject) })),
          ...failures(400, 401),
        },
      },
    },
    async ({ scope, query: { email, address } }) => {
      if ((email === undefined) === (address === undefined)) {
        const arrived = email === undefined ? 'neither' : 'both';
        throw new AppError('BAD_USER_INPUT', `email, address: got ${arrived}, expected exactly one of the two.`);
      }
      const found =
        email === undefined
          ? await users.searchByAddress(scope, requireAddress('address', address as string))
          : await users.searchByEmail(scope, requireEmail('email', email));
      return {
        message: 'Users searched.',
        result: { total_user: found.length, users: await toUserObjects(scope, found) },
      };
    },
  );

  app.get(
    '/users/:user_id',
    {
      schema: {
        summary: 'Get one user',
        tags: ['users'],
        params: userPath,
        response: { 200: answer(userObject), ...failures(400, 401, 404) },
      },
    },
    async ({ scope, params: { user_id } }) => {
      // The two reads do not depend on each other, so they share a turn.
      const [user, linked] = await Promise.all([users.getUser(scope, user_id), accounts.listAccounts(scope, user_id)]);
      return { message: 'User found.', result: userObjectOf(user, linked) };
    },
  );

  app.delete(
    '/users/:user_id',
    {
      schema: {
        summary: 'Remove one user from the project',
        description: 'Not a ban: the user can register again, under a new id.',
        tags: ['users'],
        params: userPath,
        response: { 200: message, ...failures(400, 401, 404) },
      },
    },
    async ({ scope, params: { user_id } }) => {
      await users.removeUser(scope, user_id);
      return { message: 'User removed.' };
    },
  );
};

function toFilter(query: FilterQuery) {
  return userFilter({ createdFrom: query.start_date, createdTo: query.end_date, loginMethods: query.login_method });
}

/** The user object of the spec: its eight keys, always all of them. */
function userObjectOf(user: User, accounts: Account[]): z.output<typeof userObject> {
  return {
    id: Number(user.id),
    auth_method: user.authMethod,
    auth_value: user.authValue,
    wallet: user.wallet,
    created_at: user.createdAt.toISOString(),
    last_login: user.lastLogin?.toISOString() ?? null,
    login_count: user.loginCount,
    accounts: accounts.map(({ id, network, publicKey }) => ({ id: Number(id), network, public_key: publicKey })),
  };
}
