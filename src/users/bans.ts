import { createBatchedRead } from '../db/batched-read.js';
import type { Database } from '../db/database.js';
import type { Queryable } from '../db/statements.js';
import type { Ban, GivenBanTerms, ListedBan, OwnedBan } from '../domain/bans.js';
import { cursor, cursorOf } from '../domain/filters.js';
import { type Identity, identityText, parsePrefix } from '../domain/identities.js';
import { parse } from '../domain/parse.js';
import type { ProjectScope } from '../domain/projects.js';
import { type ChangeOptions, changeOnce, retryOf } from '../projects/idempotency.js';
import {
  type BannedKey,
  type BanPageKey,
  type BanWindowKey,
  deleteBan,
  findBanned,
  findBans,
  findBanWindows,
  insertBan,
  listBanPage,
} from './bans.sql.js';

/** A page of bans. The newest come first unless it says otherwise. */
export interface BanPage extends Partial<Pick<BanPageKey, 'order'>> {
  readonly after?: string | null;
  readonly limit: number;
  readonly search?: string | null;
}

/** Bans: who has one can neither log in nor register (logins.sql.ts). Those of users are written where identities are (identities.ts). */
export function createBans(db: Database) {
  const banOf = createBatchedRead({
    name: 'bans of users',
    read: (keys: readonly BannedKey[]) => findBanned(db, keys),
    answer: ([ban]): Ban | null => ban ?? null,
  });

  const banWindows = createBatchedRead({
    name: 'windows of bans',
    read: (keys: readonly BanWindowKey[]) => findBanWindows(db, keys),
    answer: (bans: ListedBan[]) => bans,
    groupKey: () => '',
    weigh: ({ limit }) => limit,
  });

  return {
    /** Bans an identity from logging in and registering, also after its user is removed. Absent terms of a banned one stay. Null where it is lifted by now. */
    async ban(
      scope: ProjectScope,
      identity: Identity,
      terms: GivenBanTerms = {},
      { requestId = null, key = null }: ChangeOptions = {},
    ): Promise<(Ban & { readonly changed: boolean }) | null> {
      const actor = scope.actorFor('write', requestId, 'ban');
      const retry = retryOf(key, ['ban identity', identityText(identity), terms]);
      const changed = await changeOnce(db.requestTransaction, actor.projectId, retry, (tx: Queryable) =>
        insertBan(tx, actor, identity, terms),
      );
      const [ban] = await findBans(db, actor.projectId, identity);
      return ban === undefined || ban.isOfUser ? null : { ...ban, changed };
    },

    /** The ban of a user or else, of those of their identities, the one that ends last; null where none is banned. */
    async banOfUser(scope: ProjectScope, userId: number): Promise<Ban | null> {
      return banOf({ projectId: scope.projectIdFor('read', 'write'), userId });
    },

    /** A page of bans. `search` selects those whose value contains a text in any case. `next` is the next page's cursor or null. BAD_USER_INPUT. */
    async listBans(
      scope: ProjectScope,
      { after = null, limit, order = 'newest first', search = null }: BanPage,
    ): Promise<{ bans: OwnedBan[]; next: string | null }> {
      const projectId = scope.projectIdFor('inspect');
      const position = after === null ? null : parse(cursor('after', 'bans'), after);
      const part = search === null || search.trim() === '' ? null : parsePrefix('search', search);
      const contains = part && [...new Set([part.exact, part.folded])];
      const window = await listBanPage(db, projectId, { after: position, limit: limit + 1, order, contains });
      const bans = window.slice(0, limit);
      const last = bans.at(-1);
      const hasNext = window.length > limit && last !== undefined;
      return { bans, next: hasNext ? cursorOf(last) : null };
    },

    /** A page of bans for the project's backends, newest first, and whether there are more. */
    async readBans(
      scope: ProjectScope,
      { after, limit }: Pick<BanWindowKey, 'after' | 'limit'>,
    ): Promise<{ bans: ListedBan[]; hasMore: boolean }> {
      const bans = await banWindows({ projectId: scope.projectIdFor('read'), after, limit });
      return { bans: bans.slice(0, limit), hasMore: bans.length > limit };
    },

    /** The ban that holds for an identity, its own before that of a user; null where it is not banned. */
    async banOfIdentity(scope: ProjectScope, identity: Identity): Promise<Ban | null> {
      const [ban] = await findBans(db, scope.projectIdFor('read', 'write'), identity);
      return ban ?? null;
    },

    /** Lifts the ban of an identity; that of its user stays. Idempotent. */
    async unbanIdentity(scope: ProjectScope, identity: Identity, { requestId = null, key = null }: ChangeOptions = {}) {
      const actor = scope.actorFor('write', requestId, 'ban');
      const retry = retryOf(key, ['unban identity', identityText(identity)]);
      const isLifted = await changeOnce(db.requestTransaction, actor.projectId, retry, (tx: Queryable) =>
        deleteBan(tx, actor, identity),
      );
      return { ...identity, changed: isLifted };
    },
  };
}
