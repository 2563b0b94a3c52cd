import { parse, userId } from '../domain/filters.js';
import { camelCase, parseIdentity } from '../domain/identities.js';
import type { Permission, ProjectScope } from '../domain/projects.js';
import { AppError, fromUnknown } from '../errors.js';
import { builder, type DashboardContext } from './builder.js';
import { MAX_PAGE } from './paging.js';

/** What became of one of several users. */
interface UserResult {
  readonly id: string;
  readonly failure: AppError | null;
}

const userResultType = builder.objectRef<UserResult>('UserResult').implement({
  description: 'What became of one of several users. The others are independent of it.',
  fields: (t) => ({
    id: t.exposeID('id', { description: 'The user ID, as it was given.' }),
    ok: t.boolean({ description: 'Whether it was done.', resolve: ({ failure }) => failure === null }),
    code: t.string({
      nullable: true,
      description: 'Why it was not done, as a code such as `NOT_FOUND`.',
      resolve: ({ failure }) => failure?.code,
    }),
    message: t.string({
      nullable: true,
      description: 'Why it was not done, in words.',
      resolve: ({ failure }) => failure?.publicMessage,
    }),
  }),
});

const ACTIONS = {
  removeUsers: {
    permission: 'remove',
    description: 'Removes users. They can be restored until they are erased.',
    act: ({ services, requestId }, scope, id) => services.users.removeUser(scope, id, requestId),
  },
  restoreUsers: {
    permission: 'restore',
    description: 'Makes removed users current again.',
    act: ({ services, requestId }, scope, id) => services.users.restoreUser(scope, id, requestId),
  },
  banUsers: {
    permission: 'ban',
    description: 'Bans the identities of users, who stay.',
    act: async (context, scope, id) =>
      void (await context.services.logins.ban(scope, await identityOf(context, scope, id), context.requestId)),
  },
  unbanUsers: {
    permission: 'ban',
    description: 'Lifts the bans of the identities of users.',
    act: async (context, scope, id) =>
      context.services.logins.unban(scope, await identityOf(context, scope, id), context.requestId),
  },
} satisfies Record<
  string,
  {
    permission: Permission;
    description: string;
    act: (context: DashboardContext, scope: ProjectScope, id: bigint) => Promise<void>;
  }
>;

async function identityOf({ services }: DashboardContext, scope: ProjectScope, id: bigint) {
  const user = await services.users.describeUser(scope, id);
  if (user === null) throw new AppError('NOT_FOUND', `There is no user ${id} in this project.`);
  return parseIdentity(user, camelCase);
}

const idArgument = userId('ids');

for (const [name, { permission, description, act }] of Object.entries(ACTIONS)) {
  builder.mutationField(name, (t) =>
    t.field({
      type: [userResultType],
      description: `${description} Needs SUPPORT. One result for each id, in order; a failure of one does not undo the others. NOT_FOUND.`,
      args: {
        appId: t.arg.id({ required: true, description: 'The App ID of the project.' }),
        ids: t.arg.idList({ required: true, description: `The user IDs, at most ${MAX_PAGE}.` }),
      },
      resolve: async (_root, { appId, ids }, context) => {
        (await context.scopeOf(appId)).projectIdFor(permission);
        if (ids.length > MAX_PAGE)
          throw new AppError('BAD_USER_INPUT', `ids: got ${ids.length}, expected at most ${MAX_PAGE}.`);
        const parsed = ids.map((id) => parse(idArgument, id));
        const results: UserResult[] = [];
        // One after the other, so that no other tenant waits for a hundred statements at once.
        for (const [index, id] of parsed.entries()) {
          // Each is a change of its own, so each asks again what the operator may do.
          const acted = context.renew().then(async (now) => act(now, await now.scopeOf(appId), id));
          const failure = await acted.then(
            () => null,
            (error: unknown) => fromUnknown(error),
          );
          if (failure?.code === 'INTERNAL_SERVER_ERROR') context.report(failure);
          results.push({ id: ids[index] as string, failure });
        }
        return results;
      },
    }),
  );
}
