import { createBatchedRead } from '../db/batched-read.js';
import type { Database } from '../db/database.js';
import type { Queryable } from '../db/statements.js';
import type { Ban, GivenBanTerms, ListedBan, OwnedBan } from '../domain/bans.js';
import { cursor, cursorOf } from '../domain/cursors.js';
import { type Identity, identityText, parsePrefix } from '../domain/identities.js';
import { parse } from '../domain/parse.js';
import type { ProjectScope } from '../domain/projects.js';
import { afterwards } from '../errors.js';
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

/** A page of bans as it was read. */
export interface ListedBanPage {
  readonly bans: OwnedBan[];
  /** The next page's cursor; null on the last page. */
  readonly next: string | null;
}

/** The next bans for a project's backends. */
export interface BanWindow {
  readonly bans: ListedBan[];
  readonly hasMore: boolean;
}

/** Bans: who has one can neither log in nor register (logins.sql.ts). Those of users are written where identities are (identities.ts). */
export interface Bans {
  /** Bans an identity from logging in and registering, also after its user is removed. Absent terms of a banned one stay. The ban is null where it is lifted by now. */
  ban(
    scope: ProjectScope,
    identity: Identity,
    terms?: GivenBanTerms,
    options?: ChangeOptions,
  ): Promise<{ readonly ban: Ban | null; readonly changed: boolean }>;
  /** The ban of a user or else, of those of their identities, the one that ends last; null where none is banned. */
  banOfUser(scope: ProjectScope, userId: number): Promise<Ban | null>;
  /** A page of bans. `search` selects those whose value contains a text in any case. BAD_USER_INPUT. */
  listBans(scope: ProjectScope, page: BanPage): Promise<ListedBanPage>;
  /** A page of bans for the project's backends, newest first, and whether there are more. */
  readBans(scope: ProjectScope, page: Pick<BanWindowKey, 'after' | 'limit'>): Promise<BanWindow>;
  /** The ban that holds for an identity, its own before that of a user; null where it is not banned. */
  banOfIdentity(scope: ProjectScope, identity: Identity): Promise<Ban | null>;
  /** Lifts the ban of an identity; that of its user stays. Idempotent. */
  unbanIdentity(
    scope: ProjectScope,
    identity: Identity,
    options?: ChangeOptions,
  ): Promise<Identity & { readonly changed: boolean }>;
}

export function createBans(db: Database): Bans {
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
    async ban(scope, identity, terms = {}, { requestId = null, key = null } = {}) {
      const actor = scope.actorFor('write', requestId, 'ban');
      const retry = retryOf(key, ['ban identity', identityText(identity), terms]);
      const changed = await changeOnce(db.requestTransaction, actor.projectId, retry, (tx: Queryable) =>
        insertBan(tx, actor, identity, terms),
      );
      const [ban] = await afterwards(findBans(db, actor.projectId, identity));
      return { ban: ban === undefined || ban.isOfUser ? null : ban, changed };
    },

    async banOfUser(scope, userId) {
      return banOf({ projectId: scope.projectIdFor('read', 'write'), userId });
    },

    async listBans(scope, { after = null, limit, order = 'newest first', search = null }) {
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

    async readBans(scope, { after, limit }) {
      const bans = await banWindows({ projectId: scope.projectIdFor('read'), after, limit });
      return { bans: bans.slice(0, limit), hasMore: bans.length > limit };
    },

    async banOfIdentity(scope, identity) {
      const [ban] = await findBans(db, scope.projectIdFor('read', 'write'), identity);
      return ban ?? null;
    },

    async unbanIdentity(scope, identity, { requestId = null, key = null } = {}) {
      const actor = scope.actorFor('write', requestId, 'ban');
      const retry = retryOf(key, ['unban identity', identityText(identity)]);
      const isLifted = await changeOnce(db.requestTransaction, actor.projectId, retry, (tx: Queryable) =>
        deleteBan(tx, actor, identity),
      );
      return { ...identity, changed: isLifted };
    },
  };
}
