import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test, vi } from 'vitest';
import { createReplica, type ReplicaReads } from '#dist/db/replica.js';
import { Prisma } from '#dist/db/statements.js';
import { refuse, scriptPostgres } from '../support/scripted-postgres.js';
import { PATIENCE } from '../support/waiting.js';

/**
 * Where a read goes by what a standby and its primary say, which answer here from a script: no embedded database has a standby. That PostgreSQL
 * says so is tested with real ones: test/faults/replicas, test/drills.
 */

const MAX_LAG_MS = 2_000;
const READ = Prisma.sql`SELECT 'a' AS server`;

/** What both servers say. A position is a length of the log. */
interface Says {
  identity: string;
  identityOfStandby: string;
  isStandby: boolean;
  written: number;
  replayed: number;
  /** What the standby does with a read. */
  read: 'answers' | 'is silent' | 'refuses';
  /** The standby answers no check. */
  isFrozen: boolean;
}

async function watch(given: Partial<Says> = {}) {
  const says: Says = {
    identity: '7 1',
    identityOfStandby: '7 1',
    isStandby: true,
    written: 100,
    replayed: 100,
    read: 'answers',
    isFrozen: false,
    ...given,
  };
  const ended = new AbortController();
  const silence = () => sleep(600_000, undefined, { ref: false, signal: ended.signal }).catch(() => undefined);
  let checks = 0;
  let checksUntilUsed = 0;
  const standby = await scriptPostgres(async (sql) => {
    if (says.isFrozen) await silence();
    if (/pg_control_system/.test(sql)) return [{ identity: says.identityOfStandby }];
    if (/pg_is_in_recovery/.test(sql)) {
      checks += 1;
      return [{ isStandby: says.isStandby, position: says.replayed }];
    }
    if (/BEGIN|COMMIT|ROLLBACK|SET/.test(sql)) return [];
    if (says.read === 'refuses') refuse('40001');
    if (says.read === 'is silent') await silence();
    return [{ server: 'standby' }];
  });
  const heard: (string | null)[] = [];
  const onPrimary = async <Row>() => [{ server: 'primary' }] as Row[];
  const primary: ReplicaReads = {
    query: onPrimary,
    transaction: (_, work) => work({ query: onPrimary } as never),
  } as ReplicaReads;
  const replica = createReplica({
    connection: standby.connection,
    poolSize: 2,
    maxLagMs: MAX_LAG_MS,
    primary,
    keepSession(work) {
      const session = {
        signal: ended.signal,
        query: async ({ sql }: Prisma.Sql) =>
          /pg_control_system/.test(sql) ? [{ identity: says.identity }] : [{ position: says.written }],
      };
      void work(session as never).catch(() => undefined);
    },
    onReplica(reason) {
      heard.push(reason === null ? null : (reason as Error).message);
      checksUntilUsed ||= checks;
    },
  });
  replica.start();
  return {
    says,
    heard,
    standby,
    replica,
    checksUntilUsed: () => checksUntilUsed,
    read: async () => (await replica.query<{ server: string }>(READ))[0]?.server,
    readInTransaction: () =>
      replica.transaction(
        'REPEATABLE READ',
        async (tx) => (await tx.query<{ server: string }>(READ))[0]?.server as string,
      ),
    untilUsed: (isUsed = true) => vi.waitUntil(() => replica.usage().isUsed === isUsed, PATIENCE),
    async [Symbol.asyncDispose]() {
      ended.abort();
      await standby[Symbol.asyncDispose]();
      await replica.close();
    },
  };
}

describe.concurrent('a standby', () => {
  test('is used after three good checks, and not before', async () => {
    await using played = await watch();
    expect(await played.read()).toBe('primary');
    await played.untilUsed();
    expect(played.checksUntilUsed()).toBe(3);
    expect([await played.read(), await played.readInTransaction()]).toEqual(['standby', 'standby']);
    expect(played.heard).toEqual([null]);
    const { reads, failures, lagSeconds } = played.replica.usage();
    expect([reads, failures]).toEqual([{ replica: 2, primary: 1 }, 0]);
    expect(lagSeconds).toBeLessThan(MAX_LAG_MS / 1_000);
    expect(played.replica.maxAgeMs).toBe(MAX_LAG_MS + 250);
  });

  test.each<[what: string, says: Partial<Says>, reason: string]>([
    ['of another database', { identityOfStandby: '8 1' }, 'leads to another database than DATABASE_URL.'],
    ['that is no standby', { isStandby: false }, 'leads to a server that is not a standby.'],
    ['that has replayed nothing of what is known', { replayed: 99 }, 'has not replayed what the primary had written'],
  ])('%s is not used', async (_, says, reason) => {
    await using played = await watch(says);
    await vi.waitUntil(() => played.heard.length > 0, PATIENCE);
    expect(played.heard).toEqual([expect.stringContaining(reason)]);
    expect([await played.read(), await played.readInTransaction()]).toEqual(['primary', 'primary']);
    expect(played.replica.usage()).toMatchObject({ isUsed: false, failures: 0, reads: { replica: 0, primary: 2 } });
  });

  test('is left when it is too far behind, its connections stay, and it is used again when it has caught up', async () => {
    await using played = await watch();
    await played.untilUsed();
    await played.read();
    const ofReads = [...played.standby.sockets].at(-1);
    played.says.written = 200;
    await played.untilUsed(false);
    expect(played.replica.usage().lagSeconds).toBeGreaterThan(MAX_LAG_MS / 1_000 - 1);
    expect(played.heard).toEqual([null, expect.stringContaining('has not replayed')]);
    expect(await played.read()).toBe('primary');
    expect([...played.standby.sockets]).toContain(ofReads);
    played.says.replayed = 200;
    await played.untilUsed();
    expect([played.heard.at(-1), await played.read()]).toEqual([null, 'standby']);
  });

  test('that has what the primary has not is left: it does not follow it', async () => {
    await using played = await watch();
    await played.untilUsed();
    played.says.replayed = 300;
    await played.untilUsed(false);
    expect(played.heard.at(-1)).toContain('has what the primary has not');
  });

  test('that answers no check is left, and its connections are broken off', async () => {
    await using played = await watch();
    await played.untilUsed();
    await played.read();
    expect(played.standby.sockets.size).toBe(2);
    played.says.isFrozen = true;
    await played.untilUsed(false);
    await vi.waitUntil(() => played.standby.sockets.size === 0, PATIENCE);
    expect(await played.read()).toBe('primary');
  });

  test('that refuses a read stays in use, and the primary reads', async () => {
    await using played = await watch();
    await played.untilUsed();
    played.says.read = 'refuses';
    expect(await played.read()).toBe('primary');
    expect(played.replica.usage()).toMatchObject({ isUsed: true, failures: 1, reads: { replica: 0, primary: 1 } });
    await expect(played.readInTransaction()).rejects.toThrow('40001');
  });

  test('that is silent to a read is left, and all that wait for it read on the primary', async () => {
    await using played = await watch();
    await played.untilUsed();
    played.says.read = 'is silent';
    expect(await Promise.all([played.read(), played.read()])).toEqual(['primary', 'primary']);
    expect(played.heard.at(-1)).not.toBeNull();
    expect(played.replica.usage().failures).toBe(2);
  });

  test('that is gone is left', async () => {
    await using played = await watch();
    await played.untilUsed();
    await played.standby[Symbol.asyncDispose]();
    await played.untilUsed(false);
    expect(await played.read()).toBe('primary');
  });

  test('answers a question about itself', async () => {
    await using played = await watch();
    expect(await played.replica.ask('SELECT pg_is_in_recovery()')).toMatchObject({ isStandby: true });
  });
});

test('the first transaction waits for a standby, and no longer than three seconds', async () => {
  await using played = await watch();
  expect(await played.readInTransaction()).toBe('standby');
  await using other = await watch({ isFrozen: true });
  const begun = performance.now();
  expect(await other.readInTransaction()).toBe('primary');
  expect(performance.now() - begun).toBeGreaterThan(2_900);
});
