import type { Services } from '../context.js';
import { MAX_IDS } from '../domain/bounds.js';
import { LEAST_ROLE } from '../domain/operators.js';
import { readEach } from '../domain/pages.js';
import { parse, parseEachId, userId } from '../domain/parse.js';
import type { Permission, ProjectScope } from '../domain/projects.js';
import { nameOf } from '../domain/spelling.js';
import { type AppError, fromUnknown } from '../errors.js';
import { orNull, required, withDefault } from '../graphql/shared.js';
import { APP_ID, builder, type DashboardContext } from './builder.js';

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

type Act = (context: DashboardContext, scope: ProjectScope, id: bigint) => Promise<unknown>;

const ACTIONS = {
  restoreUsers: {
    permission: 'restore',
    description: 'Makes removed users current again.',
    act: ({ services, requestId }, scope, id) => services.identities.restore(scope, id, { requestId }),
  },
  unbanUsers: {
    permission: 'ban',
    description: 'Lifts the bans of users. Those of their identities stay.',
    act: ({ services, requestId }, scope, id) => services.identities.unban(scope, id, { requestId }),
  },
} satisfies Record<string, { permission: Permission; description: string; act: Act }>;

const ONE_BY_ONE = 'One result for each id, in order; a failure of one does not undo the others. NOT_FOUND.';
const IDS = required(`The user IDs, at most ${MAX_IDS}.`);

/** Does something to each of several users. */
async function actOnEach(
  context: DashboardContext,
  { appId, ids, permission }: { appId: string; ids: readonly string[]; permission: Permission },
  act: Act,
): Promise<UserResult[]> {
  const scope = await context.scopeOf(appId);
  scope.projectIdFor(permission);
  const parsed = readEach('ids', ids, parseEachId);
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
}

for (const [name, { permission, description, act }] of Object.entries(ACTIONS)) {
  builder.mutationField(name, (t) =>
    t.field({
      type: [userResultType],
      description: `${description} Needs ${nameOf(LEAST_ROLE[permission])}. ${ONE_BY_ONE}`,
      args: { appId: t.arg.id(APP_ID), ids: t.arg.idList(IDS) },
      resolve: (_root, given, context) => actOnEach(context, { ...given, permission }, act),
    }),
  );
}

const purgedPartType = builder
  .objectRef<Awaited<ReturnType<Services['users']['purgeRemoved']>>>('PurgedPart')
  .implement({
    description: 'A part of a purge.',
    fields: (t) => ({
      users: t.exposeInt('users', { description: 'How many users were erased.' }),
      done: t.exposeBoolean('isDone', { description: 'Whether none is left.' }),
    }),
  });

builder.mutationField('purgeRemovedUsers', (t) =>
  t.field({
    type: purgedPartType,
    description:
      'Erases a part of the users who were removed longer ago than a time, for ever: to be asked again until it is done. Needs ADMIN. NOT_FOUND.',
    args: { appId: t.arg.id(APP_ID), olderThanSeconds: t.arg.float(required('The time.')) },
    resolve: async (_root, { appId, olderThanSeconds }, { services, scopeOf, requestId }) =>
      services.users.purgeRemoved(await scopeOf(appId), olderThanSeconds * 1_000, requestId),
  }),
);

type UndonePart = Awaited<ReturnType<Services['transfers']['undoImport']>>;

const undonePartType = builder.objectRef<UndonePart>('UndonePart').implement({
  description: 'A part of the undoing of an import.',
  fields: (t) => ({
    removed: t.exposeInt('removed', { description: 'How many users were removed.' }),
    kept: t.exposeInt('kept', { description: 'How many stay, because anything else has touched them since.' }),
    done: t.exposeBoolean('isDone', { description: 'Whether nothing is left to be undone.' }),
  }),
});

builder.mutationField('undoImport', (t) =>
  t.field({
    type: undonePartType,
    description:
      'Removes a part of the users whom an import has created and nothing else has touched since: to be asked again until it is done. Needs ADMIN. NOT_FOUND.',
    args: { appId: t.arg.id(APP_ID), importId: t.arg.id(required('The ID of the import, which its report has.')) },
    resolve: async (_root, { appId, importId }, { services, scopeOf, requestId }) =>
      services.transfers.undoImport(await scopeOf(appId), Number(parse(importIdArgument, importId)), requestId),
  }),
);

const importIdArgument = userId('importId');

type SeededPart = Awaited<ReturnType<Services['transfers']['addSyntheticUsers']>>;

const seededPartType = builder.objectRef<SeededPart>('SeededPart').implement({
  description: 'A part of the made-up users of a seed.',
  fields: (t) => ({
    users: t.exposeInt('users', { description: 'How many users were added: without those who existed.' }),
    accounts: t.exposeInt('accounts', { description: 'How many accounts they have.' }),
    done: t.exposeInt('done', { description: 'How many of all users were made by its end.' }),
    next: t.exposeString('next', orNull('The cursor of the next part, for `after`; null after the last one.')),
  }),
});

builder.mutationField('seedUsers', (t) =>
  t.field({
    type: seededPartType,
    description:
      'Adds a part of made-up users, the same ones for the same seed and the same day: to be asked again until `next` is null. Users who exist are not changed. Needs ADMIN. NOT_FOUND; BAD_USER_INPUT.',
    args: {
      appId: t.arg.id(APP_ID),
      users: t.arg.int(required('How many users in all.')),
      seed: t.arg.int(withDefault(1, 'Another number makes other users.')),
      after: t.arg.string({ description: 'The cursor of an earlier part; without it, the first part is added.' }),
      until: t.arg({
        type: 'Date',
        description: 'The day before which all of them registered and logged in; without it, today.',
      }),
    },
    resolve: async (_root, { appId, users: count, seed, after = null, until = null }, { services, scopeOf }) =>
      services.transfers.addSyntheticUsers(await scopeOf(appId), { count, seed, after, until }),
  }),
);
