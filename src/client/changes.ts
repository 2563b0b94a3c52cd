import { badInput, UserdirError } from './errors.js';
import type { Change, ChangeType, User } from './generated/schema.js';
import { type Names, requireKnown } from './options.js';
import type { UserReader } from './reads.js';
import { type Ask, pause } from './transport.js';

type Awaitable = unknown | Promise<unknown>;

export interface FollowOptions {
  /** The cursor that was saved last; `'now'`; or null for the oldest change that is kept. */
  readonly after: string | null;
  /** Only changes of these types; all by default. */
  readonly types?: readonly ChangeType[] | undefined;
  /** Your work. After a crash it may run again for the last change. */
  readonly handle: (change: Change) => Awaitable;
  /** Stores how far the work has come. */
  readonly save: (cursor: string) => Awaitable;
  /** Ends it. */
  readonly signal?: AbortSignal | undefined;
}

/** A user who is gone; and the user who has taken over what this one had, unless the user was removed. */
export type Removal = { readonly id: string; readonly mergedInto: string | null };

export interface CopyOptions extends Pick<FollowOptions, 'save' | 'signal'> {
  /** The cursor that was saved last; null where there is no copy yet. */
  readonly after: string | null;
  /** A copy of all users begins: empty yours. It comes again after a crash before the first `save`, and where the cursor has expired. */
  readonly begin: () => Awaitable;
  /** Writes some users, a few hundred at most, as they are now. Each may come several times. */
  readonly put: (users: readonly User[]) => Awaitable;
  /** Deletes some users, also such as you do not have. What you keep with a merged one belongs to `mergedInto`, who was put before. */
  readonly remove: (removals: readonly Removal[]) => Awaitable;
}

const FOLLOW_OPTIONS: Names<FollowOptions> = { after: true, types: true, handle: true, save: true, signal: true };
const COPY_OPTIONS: Names<CopyOptions> = {
  after: true,
  begin: true,
  put: true,
  remove: true,
  save: true,
  signal: true,
};

const MOST_CHANGES = 200;
/** Between two questions, where nothing has changed. */
const PAUSE_MS = 1_000;

/** What follows the feed of changes. */
export interface Changes {
  /**
   * Calls `handle` with each change in order, then `save` with its cursor, through restarts of the service and breaks of the connection.
   * Resolves when `signal` aborts. Rejects with what they throw, and with what no retry can help: `CURSOR_EXPIRED` where changes are lost.
   */
  follow(options: FollowOptions): Promise<void>;
  /**
   * Keeps a copy of all users: first all of them, then each who has changed, without a gap. Logins are not changes, so `lastLogin` and
   * `loginCount` are those of the last change. Resolves and rejects as `follow`, but begins anew where the cursor has expired.
   */
  copy(options: CopyOptions): Promise<void>;
}

export function createChanges(ask: Ask, { readPages, getMany }: UserReader): Changes {
  /** Pages of the changes after a cursor, perhaps empty, without an end. They come through whatever happens to the service. */
  async function* pagesAfter(after: string | null, { types, signal }: Pick<FollowOptions, 'types' | 'signal'>) {
    for (let cursor = after; ; ) {
      const given = { types, first: MOST_CHANGES, ...(cursor !== null && { after: cursor }) };
      const { nodes, pageInfo } = await ask('changes', given, { signal, isPatient: true });
      const isNew = pageInfo.endCursor !== cursor;
      cursor = pageInfo.endCursor as string;
      if (isNew) yield { changes: nodes, cursor };
      if (!pageInfo.hasNextPage) await pause(PAUSE_MS, signal);
    }
  }

  /** Brings a copy up to date for the users whom some changes name. */
  async function apply({ put, remove, signal }: CopyOptions, changes: readonly Change[]): Promise<void> {
    const named = changes.flatMap(({ userId, mergedInto }) => [userId, mergedInto]).filter((id) => id !== null);
    const users = (await getMany([...new Set(named)], { signal, isPatient: true })).filter((user) => user !== null);
    if (users.length > 0) await put(users);
    const present = new Set(users.map(({ id }) => id));
    // Why another user is absent, a later change tells.
    const removals = changes.flatMap(({ type, userId: id, mergedInto }) =>
      id !== null && !present.has(id) && (type === 'USER_REMOVED' || type === 'USER_MERGED')
        ? [{ id, mergedInto }]
        : [],
    );
    if (removals.length > 0) await remove(removals);
  }

  /** Copies all users, where there is no cursor, and then what changes. */
  async function copyFrom(after: string | null, options: CopyOptions): Promise<void> {
    const { begin, put, save, signal } = options;
    let cursor = after;
    if (cursor === null) {
      // Taken before the users are read: what changes meanwhile comes again.
      const { pageInfo } = await ask('changes', { after: 'now', first: 1 }, { signal, isPatient: true });
      cursor = pageInfo.endCursor as string;
      await begin();
      for await (const { users } of readPages({ signal, isPatient: true }, false))
        if (users.length > 0) await put(users);
      await save(cursor);
    }
    for await (const page of pagesAfter(cursor, { signal })) {
      await apply(options, page.changes);
      await save(page.cursor);
    }
  }

  return {
    async follow(options) {
      requireKnown(options, FOLLOW_OPTIONS);
      const { after, types, handle, save, signal } = options;
      requireCursor(after);
      await untilAborted(signal, async () => {
        for await (const { changes, cursor } of pagesAfter(after, { types, signal })) {
          for (const change of changes) {
            signal?.throwIfAborted();
            await handle(change);
            await save(change.id);
          }
          if (cursor !== changes.at(-1)?.id) await save(cursor);
        }
      });
    },

    async copy(options) {
      requireKnown(options, COPY_OPTIONS);
      requireCursor(options.after);
      await untilAborted(options.signal, async () => {
        for (let after = options.after; ; after = null)
          await copyFrom(after, options).catch((error) => {
            if (!(error instanceof UserdirError && error.code === 'CURSOR_EXPIRED')) throw error;
          });
      });
    },
  };
}

/** A cursor that was lost would skip changes. */
function requireCursor(after: unknown): void {
  if (after !== null && (typeof after !== 'string' || after === '')) throw badInput('after', 'a cursor, "now" or null');
}

/** What is thrown because of the signal is the end, and no failure. */
async function untilAborted(signal: AbortSignal | undefined, work: () => Promise<void>): Promise<void> {
  await work().catch((error) => {
    if (!signal?.aborted || error !== signal.reason) throw error;
  });
}
