import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Database } from '#dist/db/database.js';
import { createNews, type ProjectNews } from '#dist/feed/news.js';

/** Followers are woken by the changes of their own project, whoever else follows or stops, and nobody is forgotten. */

const PROJECTS = 3;

type Act =
  | { act: 'follow'; project: number }
  | { act: 'forget' | 'abort'; which: number }
  | { act: 'publish'; changed: readonly number[]; fails: boolean };

const act: fc.Arbitrary<Act> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ act: fc.constant('follow' as const), project: fc.nat(PROJECTS - 1) }) },
  fc.record({ act: fc.constantFrom('forget' as const, 'abort' as const), which: fc.nat(20) }),
  {
    weight: 2,
    arbitrary: fc.record({
      act: fc.constant('publish' as const),
      changed: fc.uniqueArray(fc.nat(PROJECTS - 1)),
      fails: fc.constantFrom(false, false, false, true),
    }),
  },
);

interface Follower {
  readonly project: number;
  readonly news: ProjectNews;
  readonly aborter: AbortController;
  isWoken: boolean;
  isFollowing: boolean;
}

/** All that is due has happened. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

async function play(acts: readonly Act[]): Promise<void> {
  const listeners = new Set<(published: number) => void>();
  /** Which projects have changed at each publication. */
  const history: { changed: readonly number[]; fails: boolean }[] = [];
  const asked: number[][] = [];
  const db = {
    async query({ values }: { values: unknown[] }) {
      const [projects, from, through] = values as [number[], number, number];
      asked.push(projects);
      const parts = history.slice(from, through);
      if (parts.some(({ fails }) => fails)) throw new Error('away');
      const changed = new Set(parts.flatMap((part) => part.changed));
      return projects.filter((project) => changed.has(project)).map((projectId) => ({ projectId }));
    },
  } as unknown as Database;
  const news = createNews(db, (listener) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  });
  const followers: Follower[] = [];
  /** A model: whether anything was published since somebody follows. The first publication may have had anything. */
  let isFirst = true;
  const expected: boolean[] = [];
  for (const each of acts) {
    const current = followers.filter(({ isFollowing }) => isFollowing);
    if (each.act === 'follow') {
      const aborter = new AbortController();
      const follower = {
        project: each.project,
        aborter,
        news: news.of(each.project, aborter.signal),
        isWoken: false,
        isFollowing: true,
      };
      void follower.news.wait().then(() => {
        follower.isWoken = true;
      });
      if (current.length === 0) isFirst = true;
      followers.push(follower);
      expected.push(false);
    } else if (each.act === 'publish') {
      history.push(each);
      asked.length = 0;
      for (const listener of [...listeners]) listener(history.length);
      await settled();
      for (const [place, { project, isFollowing }] of followers.entries())
        if (isFollowing && (isFirst || each.fails || each.changed.includes(project))) expected[place] = true;
      if (current.length > 0) isFirst = false;
    } else {
      const place = followers.findIndex((follower) => follower === current[each.which % Math.max(1, current.length)]);
      const follower = followers[place];
      if (follower === undefined) continue;
      if (each.act === 'abort') {
        follower.aborter.abort();
        expected[place] = true;
      } else {
        follower.isFollowing = false;
        follower.news.forget();
      }
    }
    await settled();
    expect(followers.map(({ isWoken }) => isWoken)).toEqual(expected);
    const left = new Set(followers.flatMap(({ isFollowing, project }) => (isFollowing ? [project] : [])));
    // Nothing is asked where nobody follows, and only about the projects that are followed.
    expect(listeners.size).toBe(left.size > 0 ? 1 : 0);
    if (each.act === 'publish') expect([...left]).toEqual(expect.arrayContaining(asked.flat()));
  }
}

test('each follower hears of its project', async () => {
  await fc.assert(fc.asyncProperty(fc.array(act, { maxLength: 25 }), play), { numRuns: 300 });
});

test('one whose signal has aborted before is woken at once', async () => {
  const news = createNews({} as Database, () => () => undefined).of(1, AbortSignal.abort());
  await news.wait();
});

test('what is published during a slow look is in one more look, however often it is', async () => {
  const looks: [from: number, through: number][] = [];
  let end = () => {};
  const db = {
    query({ values }: { values: unknown[] }) {
      looks.push([Number(values[1]), Number(values[2])]);
      return new Promise((resolve) => {
        end = () => resolve([]);
      });
    },
  } as unknown as Database;
  let publish: (published: number) => void = () => {};
  const news = createNews(db, (listener) => {
    publish = listener;
    return () => undefined;
  });
  news.of(1, new AbortController().signal);
  for (let published = 1; published <= 100; published += 1) publish(published);
  await settled();
  for (let look = 0; look < 3; look += 1) {
    end();
    await settled();
  }
  expect(looks).toEqual([[1, 100]]);
  for (const published of [101, 102, 103]) publish(published);
  await settled();
  end();
  await settled();
  expect(looks).toEqual([
    [1, 100],
    [100, 101],
    [101, 103],
  ]);
});
