import { MAX_IDS } from '../domain/bounds.js';
import { readEach } from '../domain/pages.js';
import { parseEachId } from '../domain/parse.js';
import { costs } from '../engine/cost.js';
import type { AppError } from '../errors.js';
import { BAN_TERMS, termsOf } from './bans.js';
import { builder, KEY_DESCRIPTION, SURCHARGES } from './builder.js';
import { readChange } from './identities.js';
import { orNull, required } from './shared.js';

interface UserOutcome {
  readonly id: string;
  /** Null where it was done. */
  readonly failure: AppError | null;
}

const outcomeType = builder.objectRef<UserOutcome>('UserOutcome').implement({
  description: 'What became of one of several users.',
  fields: (t) => ({
    id: t.exposeID('id', { description: 'The user ID, as it was given.' }),
    ok: t.boolean({ description: 'Whether it was done.', resolve: ({ failure }) => failure === null }),
    code: t.string({
      ...orNull('Why it was not done: `NOT_FOUND`; null where it was.'),
      resolve: ({ failure }) => failure?.code,
    }),
    message: t.string({
      ...orNull('The same in words.'),
      resolve: ({ failure }) => failure?.publicMessage,
    }),
  }),
});

const outcomesPayload = builder.objectRef<readonly UserOutcome[]>('UserOutcomesPayload').implement({
  description: 'The result of a change of several users.',
  fields: (t) => ({
    outcomes: t.field({
      type: [outcomeType],
      description: 'What became of each, in the order of `ids`.',
      resolve: (outcomes) => [...outcomes],
    }),
  }),
});

const IDS = required(`The user IDs, at most ${MAX_IDS}. One that is there twice is changed once.`);
const KEY = { description: `${KEY_DESCRIPTION} The outcomes are those of the first request.` } as const;
const ONE_TRANSACTION =
  'All in one transaction: users whom the project does not have are told, and the others are changed.';
const WRITE_OF_MANY = costs({
  surcharge: SURCHARGES.write,
  rows: { of: ['ids'], otherwise: 0, atMost: MAX_IDS },
  items: { of: ['ids'], each: SURCHARGES.change },
});
/** What became of each, from the failures. */
const outcomesOf = (ids: readonly string[], failures: readonly (AppError | null)[]): UserOutcome[] =>
  ids.map((id, place) => ({ id, failure: failures[place] ?? null }));
const readIds = (ids: readonly string[]) => readEach('ids', ids, parseEachId);

builder.mutationFields((t) => ({
  removeUsers: t.field({
    type: outcomesPayload,
    description: `Removes users, each as \`deleteUser\` does. ${ONE_TRANSACTION}`,
    args: { ids: t.arg.idList(IDS), idempotencyKey: t.arg.string(KEY) },
    extensions: WRITE_OF_MANY,
    resolve: async (_root, { ids, idempotencyKey }, { scope, services, requestId }) => {
      const change = readChange(requestId, idempotencyKey, () => readIds(ids));
      return outcomesOf(ids, await services.manyUsers.remove(scope, ...change));
    },
  }),
  banUsers: t.field({
    type: outcomesPayload,
    description: `Bans users, each as \`banUser\` does, with the same terms. ${ONE_TRANSACTION}`,
    args: {
      ids: t.arg.idList(IDS),
      reason: t.arg.string(BAN_TERMS.reason),
      expiresAt: t.arg.string(BAN_TERMS.expiresAt),
      untilLifted: t.arg.boolean(BAN_TERMS.untilLifted),
      idempotencyKey: t.arg.string(KEY),
    },
    extensions: WRITE_OF_MANY,
    resolve: async (_root, { ids, idempotencyKey, ...terms }, { scope, services, requestId }) => {
      const change = readChange(
        requestId,
        idempotencyKey,
        () => readIds(ids),
        () => termsOf(terms),
      );
      return outcomesOf(ids, await services.manyUsers.ban(scope, ...change));
    },
  }),
}));
