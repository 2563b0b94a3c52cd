import { describe, expect, test } from 'vitest';
import type { Database } from '#dist/db/database.js';
import { Prisma, type Queryable, type Statement } from '#dist/db/statements.js';
import { MAX_IDENTITIES, parseProfile } from '#dist/domain/identities.js';
import { camelCase } from '#dist/domain/spelling.js';
import { createLogins } from '#dist/users/logins.js';
import { createNewUsers } from '#dist/users/new-users.js';
import { write } from '#dist/users/transfers.sql.js';
import { restoreUser } from '#dist/users/write-users.sql.js';

/**
 * What another request takes while a statement runs, so that the database refuses the statement. An embedded database, which has one session,
 * never lets that happen; that PostgreSQL does is seen by test/api and test/db there.
 */

/** Errors of PostgreSQL. */
const refused = (code: string, constraint?: string, detail?: string) =>
  Object.assign(new Error(`${code} ${constraint}`), { code, constraint, detail });
const IDENTITY = () => refused('23505', 'users_identity_key');
const LINKED = () => refused('23505', 'identities_identity_key');
const EXTERNAL_ID = () => refused('23505', 'users_external_id_key');
const KEY = () => refused('23505', 'idempotency_key_is_taken');
const OTHER_EXTERNAL_ID = () => refused('23514', 'users_external_id_is_kept');
const TOO_MANY = () => refused('23514', 'accounts_are_at_most_100', '103');
const UNKNOWN = () => refused('XX000', 'of_nobody');

/** A database whose writes fail with these errors, one after the other, and that then finds these rows. */
function failing(errors: readonly Error[], found: readonly object[] = []) {
  const left = [...errors];
  let writes = 0;
  const queryable = {
    async query(statement: Prisma.Sql | Statement) {
      if (!/\b(INSERT|UPDATE)\b/.test(statement.text)) return found;
      writes += 1;
      const error = left.shift();
      if (error !== undefined) throw error;
      return found;
    },
  };
  const db = { ...queryable, withdrawable: () => queryable, statementMs: 1_000 } as unknown as Database & Queryable;
  return { db, writes: () => writes };
}

const scope = { projectIdFor: () => 1 } as never;
const ada = () => parseProfile({ authMethod: 'google', authValue: 'ada', externalId: 'x' }, camelCase);
const actor = { projectId: 1, actor: 'main', requestId: null } as never;
const outcomeOf = (done: Promise<unknown>) =>
  done.then(
    () => 'done',
    ({ code, message }: Error & { code?: string }) => `${code}: ${message}`,
  );

describe('a user who is created', () => {
  const totals = { countChange: () => undefined } as never;
  test.each([
    ['the identity', [IDENTITY(), IDENTITY()], [{ keyIndex: 1, id: 7 }], /^CONFLICT: User 7 .*identity/],
    ['the identity of somebody who is gone by then', [LINKED(), LINKED()], [], /^CONFLICT: .*identity/],
    ['the external ID', [EXTERNAL_ID(), EXTERNAL_ID()], [{ keyIndex: 1, id: 7 }], /^CONFLICT: .*external ID/],
    ['nothing that is known', [UNKNOWN()], [], /^XX000/],
  ] as const)('is refused where another one has %s', async (_, errors, found, message) => {
    const { db, writes } = failing(errors, found);
    expect(await outcomeOf(createNewUsers(db, totals).createUser(scope, ada()))).toMatch(message);
    // A second try finds what the other one has committed.
    expect(writes()).toBe(errors.length);
  });
});

describe('a line of an import', () => {
  test.each([
    ['an identity', IDENTITY, /^CONFLICT: While the file was imported/],
    ['a linked identity', LINKED, /^CONFLICT: While the file was imported/],
    ['an external ID', EXTERNAL_ID, /^CONFLICT: .*external ID/],
    ['another external ID of the person', OTHER_EXTERNAL_ID, /^CONFLICT: .*external ID/],
    ['too many accounts', TOO_MANY, /^BAD_USER_INPUT: .*103/],
    ['something unknown', UNKNOWN, /^XX000/],
  ] as const)('is refused where the database has %s by then', async (_, error, message) => {
    const { db } = failing([error()]);
    expect(await outcomeOf(write(db, Prisma.sql`INSERT`))).toMatch(message);
  });
});

describe('a user who is restored', () => {
  test.each([
    ['the identity', IDENTITY, 'identity taken'],
    ['a linked identity', LINKED, 'identity taken'],
    ['the external ID', EXTERNAL_ID, 'external id taken'],
  ] as const)('is told that another one has %s by then', async (_, error, outcome) => {
    const { db } = failing([error()]);
    expect(await restoreUser(db, actor, 7n)).toEqual({ outcome, takenBy: null, method: null });
  });

  test('is not told so of another failure', async () => {
    expect(await outcomeOf(restoreUser(failing([UNKNOWN()]).db, actor, 7n))).toMatch(/^XX000/);
  });

  test('may be unknown', async () => {
    expect(await restoreUser(failing([]).db, actor, 7n)).toEqual({ outcome: 'unknown', takenBy: null, method: null });
  });
});

describe('a login', () => {
  const login = (errors: readonly Error[]) => {
    const { db, writes } = failing(errors, []);
    const logins = createLogins(db, {} as never, {} as never);
    return { outcome: outcomeOf(logins.recordLogin(scope, ada())), writes };
  };
  test.each([
    ['the external ID', [EXTERNAL_ID(), EXTERNAL_ID()], /^CONFLICT: .*external ID/, 2],
    ['another external ID of the user', [OTHER_EXTERNAL_ID()], /^CONFLICT: .*external ID/, 1],
    ['too many accounts', [TOO_MANY()], /^BAD_USER_INPUT: .*103/, 1],
    ['something unknown', [UNKNOWN()], /^XX000/, 1],
  ] as const)('is refused where the database has %s by then', async (_, errors, message, times) => {
    const { outcome, writes } = login(errors);
    expect(await outcome).toMatch(message);
    expect(writes()).toBe(times);
  });

  test('is tried again where its identity is linked and unlinked meanwhile, as often as a user may have identities', async () => {
    const { outcome, writes } = login(Array.from({ length: 1_000 }, () => LINKED()));
    expect(await outcome).toMatch(/^UNAVAILABLE: The identity is being linked and unlinked/);
    // Each try makes a statement again once.
    expect(writes()).toBe(2 * (1 + MAX_IDENTITIES));
  });

  test('is tried again once where its key is taken meanwhile', async () => {
    const { outcome, writes } = login([KEY(), KEY()]);
    expect(await outcome).toMatch(/^23505/);
    expect(writes()).toBe(2);
  });
});
