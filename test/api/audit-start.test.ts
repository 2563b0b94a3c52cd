import { expect, test } from 'vitest';
import { Prisma } from '#dist/db/statements.js';
import { useTestApp } from '../support/app.js';

/** `userdir audit` prints the newest entries, the oldest of them first, from an instant on. */

const app = useTestApp();
const ENTRIES = 7;
const minute = (n: number) => `2027-01-01T00:0${n}:00.000Z`;

test('the newest entries are read from the right one on, whatever the limit and the first instant', async () => {
  const project = await app.createProject();
  const { audit, projects } = app.context.services;
  const scope = await projects.getScope(project.appId);
  const projectId = scope.projectIdFor('inspect');
  await app.context.db.query(Prisma.sql`DELETE FROM audit_log WHERE project_id = ${projectId}::int`);
  expect(await audit.findStart(scope, null, 3)).toBeNull();
  // Two entries have each instant.
  await app.context.db.query(Prisma.sql`
    INSERT INTO audit_log (project_id, at, actor, action, user_id, details)
    SELECT ${projectId}::int, TIMESTAMPTZ '2027-01-01Z' + n / 2 * interval '1 minute', 'main', 'remove', n, '{}' FROM generate_series(0, ${ENTRIES - 1}::int) AS n`);
  const all = Array.from({ length: ENTRIES }, (_, n) => ({ n, at: minute(Math.floor(n / 2)) }));
  for (const since of [null, minute(0), minute(1), minute(3), minute(4)]) {
    for (let limit = 1; limit <= ENTRIES + 1; limit += 1) {
      const start = await audit.findStart(scope, since, limit);
      const entries = await audit.listEntries(scope, start, limit);
      const expected = all.filter(({ at }) => since === null || at >= since).slice(-limit);
      expect([since, limit, entries.map(({ userId }) => Number(userId))]).toEqual([
        since,
        limit,
        expected.map(({ n }) => n),
      ]);
    }
  }
});
