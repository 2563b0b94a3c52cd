import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import type { Services } from '../context.js';
import { PAGE_SIZE } from '../domain/bounds.js';
import { userFilter } from '../domain/filters.js';
import { requireEmail } from '../domain/identities.js';
import { INPUT_LIMITS } from '../domain/input-limits.js';
import { limit, page } from '../domain/pages.js';
import { dateBound, loginMethods } from '../domain/parameters.js';
import { KEY_KEPT_HOURS, readAll, requireKey, says, userId } from '../domain/parse.js';
import type { User } from '../domain/users.js';
import { requireAddress } from '../domain/wallets.js';
import { AppError } from '../errors.js';
import { answer, answerWithoutResult, EXAMPLE_ADDRESS, EXAMPLE_USER, userObject } from './shapes.js';

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
      maxLength: INPUT_LIMITS.email.max,
      example: EXAMPLE_USER.auth_value,
    }),
  address: z
    .string({ error: says('address', 'one address') })
    .optional()
    .meta({
      description: 'Stellar (G…) or Ethereum (0x…) address of a custodial account or an external login wallet.',
      maxLength: INPUT_LIMITS.address.max,
      example: EXAMPLE_ADDRESS,
    }),
});
const userPath = z.object({ user_id: userId('user_id') });
const retryHeaders = z.object({
  'idempotency-key': z
    .string()
    .optional()
    .meta({
      description: `A key of your choice for this request, of printable ASCII without spaces. A retry with the same key within ${KEY_KEPT_HOURS} hours is answered as the first was, instead of with 404, even if the user was restored meanwhile: make it at random, never from the user ID. Another request of the project with the same key is 409, also over GraphQL.`,
      // Without a pattern: Postman makes a value that fits it, and sends that with each removal.
      maxLength: INPUT_LIMITS.idempotencyKey.max,
      example: 'f4b6c1de-6a35-4c5f-9a57-2f0c8d3b7e10',
    }),
});

const listed = z.array(userObject).meta({ description: 'The users, newest first.' });
const total = () => z.int().min(0).meta({ description: 'The exact number of users who match, on all pages together.' });

type FilterQuery = z.output<typeof filterQuery>;

/** The five user routes (spec, "Endpoints"). */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a declaration for each route
export const userRoutes: FastifyPluginAsyncZod<{ services: Services }> = async (app, { services }) => {
  const { users } = services;

  app.get(
    '/users',
    {
      config: { permission: 'read', weight: ({ query }) => listWeight((query as z.output<typeof listQuery>).limit) },
      schema: {
        operationId: 'listUsers',
        summary: 'List users',
        description:
          'The newest first. The total and the users are of the same instant. Any page is about as fast as the first.',
        tags: ['users'],
        querystring: listQuery,
        response: {
          200: answer(
            z.object({
              page: z.int().min(1).meta({ description: 'As asked.' }),
              limit: z.int().min(1).max(PAGE_SIZE.max).meta({ description: 'As asked.' }),
              total_user: total(),
              users: listed,
            }),
            'A page of users. A page past the end is empty.',
            { message: 'Users listed.', result: { page: 1, limit: 10, total_user: 1, users: [EXAMPLE_USER] } },
          ),
        },
      },
    },
    async ({ scope, query }) => {
      const { page, limit } = query;
      const list = await users.listPage(scope, toFilter(query), { page, limit, withAccounts: true });
      const listed = list.users.map(userObjectOf);
      return { message: 'Users listed.', result: { page, limit, total_user: list.total, users: listed } };
    },
  );

  app.get(
    '/users/count',
    {
      config: { permission: 'read' },
      schema: {
        operationId: 'countUsers',
        summary: 'Count users',
        description: 'With the filters of the list.',
        tags: ['users'],
        querystring: filterQuery,
        response: {
          200: answer(z.object({ total_user: total() }), 'The exact number.', {
            message: 'Users counted.',
            result: { total_user: 200 },
          }),
        },
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
      config: { permission: 'read' },
      schema: {
        operationId: 'searchUsers',
        summary: 'Search users',
        description:
          'By login email or by address: takes exactly one of the two parameters. To decide whether an address belongs to a user, use wallet verification.',
        tags: ['users'],
        querystring: searchQuery,
        response: {
          200: answer(
            z.object({ total_user: total(), users: listed }),
            'Every user who matches. The list is empty where none does.',
            { message: 'Users searched.', result: { total_user: 1, users: [EXAMPLE_USER] } },
          ),
        },
      },
    },
    async (request) => {
      const { scope, query } = request;
      const { email, address } = query;
      if ((email === undefined) === (address === undefined)) {
        const arrived = email === undefined ? 'neither' : 'both';
        throw new AppError('BAD_USER_INPUT', `email, address: got ${arrived}, expected exactly one of the two.`);
      }
      const matches =
        email === undefined
          ? await users.searchByAddress(scope, requireAddress('address', address as string))
          : await users.searchByEmail(scope, requireEmail('email', email, '; in a URL, + must be sent as %2B'));
      request.addWeight(listWeight(matches.length));
      return { message: 'Users searched.', result: { total_user: matches.length, users: matches.map(userObjectOf) } };
    },
  );

  app.get(
    '/users/:user_id',
    {
      config: { permission: 'read' },
      schema: {
        operationId: 'getUser',
        summary: 'Get a user',
        tags: ['users'],
        params: userPath.extend({ user_id: userId('user_id').meta({ example: EXAMPLE_USER.id }) }),
        response: { 200: answer(userObject, 'The user.', { message: 'User found.', result: EXAMPLE_USER }) },
      },
    },
    async ({ scope, params: { user_id } }) => ({
      message: 'User found.',
      result: userObjectOf(await users.getUser(scope, user_id)),
    }),
  );

  app.delete(
    '/users/:user_id',
    {
      // The handler refuses a wrong ID together with a wrong key.
      attachValidation: true,
      config: { permission: 'write' },
      schema: {
        operationId: 'removeUser',
        summary: 'Remove a user',
        description: 'From the project. Not a ban: the user can register again, under a new id.',
        tags: ['users'],
        params: userPath,
        headers: retryHeaders,
        response: { 200: answerWithoutResult('The user is removed.', 'User removed.') },
      },
    },
    async ({ scope, id, headers, until, params: { user_id }, validationError }) => {
      const [, key] = readAll(
        () => {
          if (validationError !== undefined) throw validationError;
        },
        () => requireKey('Idempotency-Key', headers['idempotency-key']),
      );
      await users.removeUser(scope, user_id, id, key, until);
      return { message: 'User removed.' };
    },
  );
};

/** The weight of a list in admission: a row takes about an eighth of the work of a request. */
export function listWeight(rows: number): number {
  return 1 + Math.ceil(rows / 8);
}

function toFilter(query: FilterQuery) {
  return userFilter({ createdFrom: query.start_date, createdTo: query.end_date, loginMethods: query.login_method });
}

/** The user object of the spec. It always has all of its eight keys. */
export function userObjectOf(user: User): z.output<typeof userObject> {
  return {
    id: user.id,
    auth_method: user.authMethod,
    auth_value: user.authValue,
    wallet: user.wallet,
    created_at: user.createdAt,
    last_login: user.lastLogin,
    login_count: user.loginCount,
    accounts: (user.accounts ?? []).map(({ id, network, publicKey }) => ({ id, network, public_key: publicKey })),
  };
}
