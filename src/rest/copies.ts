import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import type { Services } from '../context.js';
import { ofKeptLines } from '../domain/kept-texts.js';
import { userIds } from '../domain/parameters.js';
import type { User, UserDetail } from '../domain/users.js';
import { type Authenticate, authenticated, stillAuthenticated } from '../http/authentication.js';
import { namesIgnoredParameters } from '../http/failures.js';
import { compileValidator } from './plugin.js';
import { answer, EXAMPLE_WHOLE_USER, wholeUser } from './shapes.js';
import { listWeight, userObjectOf } from './users.js';

export interface CopiesOptions {
  readonly services: Pick<Services, 'users' | 'identities'>;
  readonly authenticate: Authenticate;
}

const idsQuery = z.object({ ids: userIds('ids') });
const nameIgnored = namesIgnoredParameters({ querystring: idsQuery });

/** Users by their IDs, at /users, with all that a copy needs beside the changes. */
export const copiesPlugin: FastifyPluginAsyncZod<CopiesOptions> = async (
  app,
  { services: { users, identities }, authenticate },
) => {
  app.addHook('onRequest', authenticated(authenticate));
  app.addHook('preHandler', stillAuthenticated(authenticate));
  app.setValidatorCompiler(compileValidator);
  app.setSerializerCompiler(() => JSON.stringify);
  app.get(
    '/users',
    {
      config: { weight: ({ query }) => listWeight((query as z.output<typeof idsQuery>).ids.length) },
      schema: {
        operationId: 'getUsers',
        summary: 'Get users for a copy',
        description:
          'By their IDs, with all that a copy needs, in the order of `ids`, without those whom the project does not have. With `GET /changes` it keeps a copy of the users up to date. Needs the scope `read`.',
        tags: ['users'],
        querystring: idsQuery,
        response: {
          200: answer(
            z.object({ users: z.array(wholeUser).meta({ description: 'The users, in the order of `ids`.' }) }),
            'The current users among them.',
            {
              message: 'Users found.',
              result: { users: [EXAMPLE_WHOLE_USER] },
            },
          ),
        },
      },
      onRequest: async ({ scope }) => void scope.projectIdFor('read'),
      preValidation: async (request, reply) => nameIgnored(request, reply),
    },
    async ({ scope, query: { ids } }) => {
      const current = await Promise.all(ids.map((id) => users.findUser(scope, id)));
      const whole = current.map(async (user) => user && wholeUserOf(user, await identities.detailsOf(scope, user.id)));
      return { message: 'Users found.', result: { users: (await Promise.all(whole)).filter((user) => user !== null) } };
    },
  );
};

function wholeUserOf(user: User, { identities, metadata }: UserDetail): z.output<typeof wholeUser> {
  return {
    ...userObjectOf(user),
    email: user.loginEmail,
    ...ofKeptLines((field) => user[field]),
    metadata: metadata as Record<string, unknown> | null,
    identities: identities.map((identity) => ({
      auth_method: identity.authMethod,
      auth_value: identity.authValue,
      email: identity.loginEmail,
      email_verified: identity.emailVerified,
      created_at: identity.createdAt,
      last_login: identity.lastLogin,
      primary: identity.isPrimary,
    })),
  };
}
