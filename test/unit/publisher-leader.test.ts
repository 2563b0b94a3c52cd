import { describe, expect, test, vi } from 'vitest';
import type { Database, Session } from '#dist/db/database.js';
import type { Leader } from '#dist/feed/changes.sql.js';
import { createPruning } from '#dist/feed/pruning.js';
import { createPublication } from '#dist/feed/publication.js';
import { createLeaderPublisher } from '#dist/feed/publisher-leader.js';
import { PATIENCE } from '../support/waiting.js';

/**
 * What one of several processes does by what PostgreSQL tells it, which answers here from a script: no embedded database has two sessions. That
 * PostgreSQL tells so is tested with real ones: test/faults/changes, test/faults/frozen-leader.
 */

interface Script {
  /** Whether this process becomes the leader, each time it asks. */
  readonly leads?: () => boolean;
  readonly leader?: Leader | null;
  readonly feed?: { published: number; last: number };
  readonly end?: () => boolean;
  readonly last?: () => number;
  readonly ended?: () => boolean;
  readonly writers?: () => string[];
  readonly isDirect?: boolean;
  readonly isShared?: boolean;
  readonly recognise?: () => string;
}

function play(script: Script) {
  const closing = new AbortController();
  const said: string[] = [];
  const reports: string[] = [];
  let prunings = 0;
  let notice: (text: string) => void = () => undefined;
  let published = script.feed?.published ?? 0;
  const answers: [RegExp, name: string, answer: (values: readonly unknown[]) => object[]][] = [
    [/pg_try_advisory_lock/, 'asks to lead', () => [{ value: script.leads?.() ?? false }]],
    [/pg_terminate_backend/, 'ends the leader', () => [{ isEnded: script.end?.() ?? true }]],
    [/pg_stat_activity/, 'looks for the leader', () => (script.leader ? [script.leader] : [])],
    [/set_config\('application_name'/, 'names itself', () => []],
    [/recognise_database/, 'recognises the database', () => [{ value: script.recognise?.() ?? 'known' }]],
    [
      /publish_settled/,
      'looks for changes',
      (values) => {
        const last = script.last?.() ?? 0;
        if (last <= Number(values[0])) return [{ last, published: null, unsettled: null }];
        if (!(script.ended?.() ?? true)) return [{ last, published: null, unsettled: '7' }];
        published = last;
        return [{ last, published, unsettled: null }];
      },
    ],
    [
      /publish_changes/,
      'publishes',
      (values) => {
        published = Math.max(published, Number(values[0]));
        return [{ published }];
      },
    ],
    [/pg_snapshot_xmin/, 'asks whether transactions have ended', () => [{ value: script.ended?.() ?? true }]],
    [/RowExclusiveLock/, 'looks for writers', () => (script.writers?.() ?? []).map((writer) => ({ writer }))],
    [/timelines/, 'reads the feed', () => [{ published: 0, last: 0, ...script.feed }]],
  ];
  const session = {
    signal: closing.signal,
    isDirect: async () => script.isDirect ?? true,
    isShared: async () => script.isShared ?? false,
    listen: async (_: string, onNotice: typeof notice) => {
      notice = onNotice;
    },
    async query({ sql, values }: { sql: string; values: unknown[] }) {
      const [, name, answer] = answers.find(([pattern]) => pattern.test(sql)) ?? [];
      if (name === undefined || answer === undefined) throw new Error(`Unexpected: ${sql}`);
      said.push(name);
      return answer(values);
    },
  } as unknown as Session;
  let work: (session: Session) => Promise<void> = async () => undefined;
  const db = {
    keepSession(given: typeof work) {
      work = given;
    },
  } as unknown as Database;
  const deleteExpired = async () => {
    prunings += 1;
  };
  const onFailure = (error: unknown) => void reports.push((error as Error).message);
  const publication = createPublication();
  const pruning = createPruning(deleteExpired, onFailure, closing.signal);
  const publisher = createLeaderPublisher(db, publication, pruning, onFailure);
  publisher.start();
  const ended = work(session).catch((error: Error) => error);
  return {
    said,
    reports,
    publication,
    publisher,
    prunings: () => prunings,
    notice: (text: string) => notice(text),
    ended,
    async close() {
      closing.abort();
      const error = await ended;
      await pruning.end();
      return (error as Error | undefined)?.name;
    },
  };
}

const until = (isSo: () => boolean) => vi.waitUntil(isSo, PATIENCE);

/** Until a process has said something so often. */
const said = (played: ReturnType<typeof play>, name: string, times = 1) =>
  until(() => played.said.filter((one) => one === name).length >= times);

const LEADER: Leader = { pid: 42, role: 'ada', address: null, seconds: 100, silentSeconds: 0, isNamed: true };
const SILENT = 'The session 42 of role ada publishes changes, and has been silent for';
const denied = () => {
  throw Object.assign(new Error('permission denied'), { code: '42501' });
};

describe.concurrent('a process that follows', () => {
  test.each<[string, Leader | null, end: () => boolean, ends: boolean, report: string | null]>([
    ['no leader', null, () => true, false, null],
    ['a leader that is alive', LEADER, () => true, false, null],
    ['one that was alive a moment ago', { ...LEADER, silentSeconds: 9.9 }, () => true, false, null],
    ['a silent one', { ...LEADER, silentSeconds: 10 }, () => true, true, `${SILENT} 10 s, so it was ended.`],
    ['one that has just woken up', { ...LEADER, silentSeconds: 12 }, () => false, true, null],
    [
      'a silent one of another role',
      { ...LEADER, silentSeconds: 12.4 },
      denied,
      true,
      `${SILENT} 12 s. This role may not end it. As a superuser: SELECT pg_terminate_backend(42).`,
    ],
    [
      'a silent one behind a pooler',
      { ...LEADER, silentSeconds: 12, isNamed: false },
      () => true,
      false,
      `${SILENT} 12 s. A pooler may have lent it to another client, so it is not ended: set DATABASE_DIRECT_URL.`,
    ],
    [
      'one of which this role sees nothing',
      { ...LEADER, silentSeconds: null },
      () => true,
      false,
      'The session 42 of role ada publishes changes, and this role may not see whether it is alive. Give both processes the same role.',
    ],
  ])('%s', async (_, leader, end, ends, report) => {
    const played = play({ leader, end });
    await said(played, 'looks for the leader', 2);
    expect(played.said.includes('ends the leader')).toBe(ends);
    // The same is reported once.
    expect(played.reports).toEqual(report === null ? [] : [report]);
    expect(played.said).not.toContain('publishes');
    expect(await played.close()).toBe('AbortError');
  });

  test('ends with its session where PostgreSQL fails otherwise', async () => {
    const end = () => {
      throw Object.assign(new Error('gone'), { code: '57P01' });
    };
    const played = play({ leader: { ...LEADER, silentSeconds: 11 }, end });
    expect(await played.ended).toMatchObject({ message: 'gone' });
  });

  test('knows what is published, from the feed and from notices', async () => {
    const played = play({ leader: LEADER, feed: { published: 3, last: 5 } });
    await said(played, 'looks for the leader');
    expect(played.publication.published()).toBe(3);
    expect(played.publication.lagSeconds()).toBeGreaterThan(0);
    played.notice('5');
    expect([played.publication.published(), played.publication.lagSeconds()]).toEqual([5, 0]);
    await played.close();
  });

  test('never leads in a session that a pooler lends to others', async () => {
    const played = play({ isShared: true, leads: () => true });
    await said(played, 'looks for the leader', 2);
    expect(played.said).not.toContain('asks to lead');
    await played.close();
  });

  test('lets a reader wait for what is published, and no longer', async () => {
    const played = play({ leader: LEADER, feed: { published: 3, last: 3 } });
    await said(played, 'looks for the leader');
    await played.publisher.waitFor(3);
    let isThere = false;
    const waiting = played.publisher.waitFor(5).then(() => {
      isThere = true;
    });
    played.notice('4');
    await Promise.resolve();
    expect(isThere).toBe(false);
    played.notice('5');
    await waiting;
    await played.close();
  });

  test('lets no reader wait for changes that were not published for a second, where another process leads', async () => {
    const played = play({ leader: LEADER, feed: { published: 3, last: 4 } });
    await said(played, 'looks for the leader');
    await until(() => played.publication.lagSeconds() > 1);
    let isThere = false;
    void played.publisher.waitFor(4).then(() => {
      isThere = true;
    });
    await new Promise(setImmediate);
    expect(isThere).toBe(true);
    await played.close();
  });
});

describe.concurrent('a process that leads', () => {
  test('names its session where no pooler can lend it, deletes what has expired, and publishes at once', async () => {
    const played = play({ leads: () => true });
    await said(played, 'looks for changes', 2);
    expect(played.said.slice(0, 4)).toEqual(['asks to lead', 'names itself', 'recognises the database', 'publishes']);
    expect(played.said.filter((name) => name === 'publishes')).toHaveLength(1);
    expect([played.prunings(), played.reports]).toEqual([1, []]);
    played.notice('9');
    expect(played.publication.published()).toBe(0);
    await played.close();
  });

  test('has no name behind a pooler', async () => {
    const played = play({ leads: () => true, isDirect: false });
    await said(played, 'looks for changes');
    expect(played.said).not.toContain('names itself');
    await played.close();
  });

  test('says that the database was restored', async () => {
    const played = play({ leads: () => true, recognise: () => 'restored' });
    await said(played, 'looks for changes');
    expect(played.reports).toEqual([expect.stringContaining('restored')]);
    await played.close();
  });

  test('knows that it does not lead when its session ends as it begins to: another one may', async () => {
    const recognise = () => {
      throw new Error('The session has ended.');
    };
    const played = play({ leads: () => true, recognise });
    expect(await played.ended).toMatchObject({ message: 'The session has ended.' });
    played.notice('7');
    expect(played.publication.published()).toBe(7);
  });

  test('publishes a change with the statement that finds it, where no other transaction is open', async () => {
    const played = play({ leads: () => true, last: () => 4 });
    await until(() => played.publication.published() === 4);
    await said(played, 'looks for changes', 3);
    expect(played.said.filter((name) => name === 'publishes')).toHaveLength(1);
    expect(played.said).not.toContain('asks whether transactions have ended');
    await played.close();
  });

  test('publishes a change once all transactions before it have ended', async () => {
    let asked = 0;
    const played = play({ leads: () => true, last: () => 4, ended: () => ++asked > 2 });
    await until(() => played.publication.published() === 4);
    const begun = played.said.indexOf('looks for changes');
    const settled = Array.from({ length: 2 }, () => 'asks whether transactions have ended');
    expect(played.said.slice(begun, begun + 4)).toEqual(['looks for changes', ...settled, 'publishes']);
    await said(played, 'looks for changes', 3);
    expect(played.said.filter((name) => name === 'publishes')).toHaveLength(2);
    await played.close();
  });

  test('waits for the transactions that write changes, and not for others that stay open', async () => {
    let open = ['1/1', '2/2'];
    const played = play({ leads: () => true, last: () => 4, ended: () => false, writers: () => open });
    await said(played, 'looks for writers', 2);
    open = ['2/2'];
    const before = played.said.length;
    await said(played, 'looks for writers', 4);
    expect(played.said.slice(before)).not.toContain('publishes');
    // Another one that begins later has later changes.
    open = ['3/3'];
    await until(() => played.publication.published() === 4);
    await played.close();
  });

  test('is another one’s follower, and leads once that one has gone', async () => {
    let asked = 0;
    const played = play({ leader: LEADER, leads: () => ++asked > 1, last: () => 2 });
    await until(() => played.publication.published() === 2);
    expect(played.said.slice(0, 4)).toEqual(['asks to lead', 'reads the feed', 'looks for the leader', 'asks to lead']);
    await played.close();
  });
});
