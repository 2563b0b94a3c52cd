import { expect, test } from 'vitest';
import type { Database, Session } from '#dist/db/database.js';
import { createChangePublisher } from '#dist/feed/publisher.js';

test('a session that becomes the leader while the service closes deletes no old changes: the pool may have ended', async () => {
  const closing = new AbortController();
  const used: string[] = [];
  let work: (session: Session) => Promise<void> = async () => undefined;
  const db = {
    engineUsage: () => null,
    keepSession: (followLeader: typeof work) => {
      work = followLeader;
    },
    query: async () => {
      used.push('the pool');
      return [];
    },
  } as unknown as Database;
  const session = {
    signal: closing.signal,
    isDirect: async () => true,
    isShared: async () => false,
    listen: async () => undefined,
    query: async () => [{ leads: true, published: 0, last: 0 }],
  } as unknown as Session;

  const deleteExpired = async () => void used.push('the deletion of what has expired');
  const publisher = createChangePublisher(db, deleteExpired, () => undefined);
  publisher.start();
  await publisher.close();
  const following = work(session).catch((error) => error.name);
  setTimeout(() => closing.abort(), 50);
  expect(await following).toBe('AbortError');
  expect(used).toEqual([]);
});
