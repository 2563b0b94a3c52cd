import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Json } from '../support/app.js';
import { type Credentials, outcomeOf, spawnUserdir, userdir, userdirJson } from '../support/command.js';
import { graphql, headersOf, RETRYABLE, startLoad } from '../support/writers.js';
import { type CellName, missingPrograms, startCells } from './cells.js';

/** A project moves between two cells while it is used: how long it is held, and whether anything acknowledged is lost. */

/** Load before a move, and after it. */
const STEADY_MS = 2_000;
const MAX_HELD_MS = 2_000;

describe.skipIf(missingPrograms.length > 0)('a project of one of two cells', () => {
  let drill: Awaited<ReturnType<typeof startCells>>;
  /** Two that move, and one in each cell that stays. */
  let large: Credentials;
  let small: Credentials;
  let neighbors: Credentials[];

  beforeAll(async () => {
    drill = await startCells();
    large = await createProject('cell1', 20_000);
    small = await createProject('cell1', 2_000);
    neighbors = [await createProject('cell1', 100), await createProject('cell2', 100)];
  });
  afterAll(() => drill?.stop());

  async function createProject(name: CellName, users: number): Promise<Credentials> {
    const { settings } = drill.cells[name];
    const project: Credentials = await userdirJson(settings, ['project', 'create', '--name', 'Drill']);
    await userdirJson(settings, ['seed', '--project', project.app_id, '--users', String(users)]);
    if (name === 'cell2') drill.mapTo(project.app_id, name);
    return project;
  }

  /** Puts load on a project and its neighbors through `work`. Expects that nothing is lost, and that the neighbors notice nothing. */
  async function underLoad(project: Credentials, work: () => Promise<void>) {
    const [one, two] = [startLoad(urlOf(0), project, 2), startLoad(urlOf(1), project, 2)];
    const loads = [one, two, ...neighbors.map((each, index) => startLoad(urlOf(index as 0 | 1), each, 1))];
    await sleep(STEADY_MS);
    await work();
    await sleep(STEADY_MS);
    const all = await Promise.all(loads.map((load) => load.stop()));
    const [moved, others] = [all.slice(0, 2), all.slice(2)];
    expect(all.map(({ lost, missing }) => [lost, missing])).toEqual(all.map(() => [0, 0]));
    expect(others.map(({ failures }) => [...failures])).toEqual(others.map(() => []));
    expect(moved.flatMap(({ failures }) => [...failures.keys()]).filter((what) => !RETRYABLE.test(what))).toEqual([]);
    const sum = (numberOf: (load: (typeof all)[number]) => number) => moved.map(numberOf).reduce((a, b) => a + b, 0);
    return {
      acknowledged: sum(({ acknowledged }) => acknowledged),
      lost: sum(({ lost }) => lost),
      gapMs: Math.max(...moved.map(({ gapMs }) => gapMs)),
      failed: sum(({ failures }) => [...failures.values()].reduce((count, more) => count + more, 0)),
    };
  }

  const urlOf = (balancer: 0 | 1) => drill.balancers[balancer]?.url as string;

  /** Expects that a cell has the project and the other nothing of it, and that all totals are exact. */
  async function expectOnlyIn(name: CellName, { app_id: appId }: Credentials): Promise<void> {
    for (const cell of Object.values(drill.cells)) {
      const projects: Json[] = await userdirJson(cell.settings, ['project', 'list']);
      expect(projects.some(({ app_id }) => app_id === appId)).toBe(cell.name === name);
      expect(await userdirJson(cell.settings, ['totals', 'check'])).toMatchObject({ differences: [] });
      expect(await countRests(cell.databaseUrl)).toEqual({ moves: 0, publications: 0, subscriptions: 0, slots: 0 });
    }
  }

  async function countRests(url: string): Promise<Json> {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    const { rows } = await client.query(`
      SELECT (SELECT count(*)::int FROM project_moves) AS moves, (SELECT count(*)::int FROM pg_publication) AS publications,
             (SELECT count(*)::int FROM pg_subscription) AS subscriptions, (SELECT count(*)::int FROM pg_replication_slots) AS slots`);
    await client.end();
    return rows[0];
  }

  const cursorOf = async () =>
    (await graphql(urlOf(0), large, '{ changes(after: "now") { pageInfo { endCursor } } }')).body.data.changes.pageInfo
      .endCursor;

  test('moves under load: held for two seconds at most, nothing lost, others undisturbed', async ({ annotate }) => {
    const cursor = await cursorOf();
    // Clients of a balancer that was not told of the move.
    const missed = startLoad(drill.cells.cell1.server.url, large, 2, urlOf(0));
    let result: Json;
    const load = await underLoad(large, async () => {
      const { settings, args } = drill.moveCommand(large.app_id, 'cell1', 'cell2');
      result = await userdirJson(settings, args);
    });
    const { acknowledged, lost, failures } = await missed.stop();
    expect([acknowledged > 0, lost]).toEqual([true, 0]);
    // Refused while the project is in neither cell, and not known to the first one afterwards.
    expect([...failures.keys()].filter((what) => !RETRYABLE.test(what) && !/^(401|429) /.test(what))).toEqual([]);
    expect(result).toMatchObject({ outcome: 'moved', rows: expect.any(Number) });
    expect(result.held_ms).toBeLessThan(MAX_HELD_MS);
    await expectOnlyIn('cell2', large);
    // Those who follow the project read it again.
    const response = await fetch(`${urlOf(1)}/changes?after=${cursor}`, { headers: headersOf(large) });
    expect(response.status).toBe(410);
    await annotate(
      `${result.rows} rows copied in ${result.copy_ms} ms, held ${result.held_ms} ms, longest gap ${load.gapMs} ms, ` +
        `${load.acknowledged} acknowledged, ${load.lost} lost, ${load.failed} answered with 503, deleted in ${result.delete_ms} ms`,
    );
  });

  /** Kills the command when it says what it begins, or at the end of one of its commands. */
  const KILLS: { readonly at: string; readonly notice?: string; readonly option?: string }[] = [
    { at: 'preparing', notice: 'Preparing' },
    { at: 'copying', notice: 'Copying' },
    { at: 'waiting for the target', notice: 'Waiting' },
    { at: 'switching', notice: 'Switching' },
    { at: 'the end of the hold command', option: '--hold-command' },
    { at: 'the end of the map command', option: '--map-command' },
    { at: 'the end of the release command', option: '--release-command' },
    { at: 'deleting', notice: 'Deleting' },
  ];

  test('goes on after kill -9 of the command at any step, and loses nothing', async ({ annotate }) => {
    let [from, to]: [CellName, CellName] = ['cell1', 'cell2'];
    const load = await underLoad(small, async () => {
      for (const { at, notice, option } of KILLS) {
        const { settings, args } = drill.moveCommand(
          small.app_id,
          from,
          to,
          option ? { [option]: { after: 'kill -9 $PPID' } } : {},
        );
        const child = spawnUserdir(settings, args);
        child.stderr.on('data', (text) => {
          if (notice !== undefined && String(text).includes(notice)) child.kill('SIGKILL');
        });
        expect([at, (await outcomeOf(child)).signal]).toEqual([at, 'SIGKILL']);
        const command = drill.moveCommand(small.app_id, from, to);
        const { code, stderr } = await userdir(command.settings, command.args);
        expect([at, code, code === 0 ? '' : stderr]).toEqual([at, 0, '']);
        [from, to] = [to, from];
      }
    });
    await expectOnlyIn(from, small);
    await annotate(
      `${KILLS.length} moves, each killed once: ${load.acknowledged} acknowledged, ${load.lost} lost, ${load.failed} answered with 503`,
    );
  });

  /** How the second balancer fails at which command, what the move then says, and what the first balancer answers until it has run again. */
  const DEATHS = [
    {
      how: 'hangs',
      signal: 'STOP',
      at: '--hold-command',
      says: 'The project stays in the source, but a balancer may still refuse',
      status: 200,
    },
    {
      how: 'dies',
      signal: 'KILL',
      at: '--map-command',
      says: 'The project refuses requests until the command has run again.',
      status: 503,
    },
  ] as const;

  test.for(DEATHS)(
    'a balancer that $how at $at ends the move, which goes on later and loses nothing',
    async (death) => {
      const { at, signal, says, status } = death;
      const from: CellName = (await isIn('cell1', small)) ? 'cell1' : 'cell2';
      const to: CellName = from === 'cell1' ? 'cell2' : 'cell1';
      const second = drill.balancers[1] as (typeof drill.balancers)[number];
      const load = startLoad(urlOf(0), small, 2);
      await sleep(STEADY_MS);
      const dying = { [at]: { before: `kill -${signal} ${second.pid()}` } };
      const { settings, args } = drill.moveCommand(small.app_id, from, to, dying);
      const { code, stderr } = await userdir(settings, args);
      expect([code, stderr]).toEqual([1, expect.stringContaining(says)]);
      const count = () => fetch(`${urlOf(0)}/server/users/count`, { headers: headersOf(small) });
      await vi.waitUntil(async () => (await count()).status === status, { timeout: 10_000 });
      await second.kill();
      await second.start();
      const again = drill.moveCommand(small.app_id, from, to);
      expect((await userdir(again.settings, again.args)).code).toBe(0);
      await sleep(STEADY_MS);
      const { lost, missing, failures, acknowledged } = await load.stop();
      expect({ lost, missing }).toEqual({ lost: 0, missing: 0 });
      expect(acknowledged).toBeGreaterThan(0);
      expect([...failures.keys()].filter((what) => !RETRYABLE.test(what))).toEqual([]);
      // Both balancers lead to the other cell.
      await expectOnlyIn(to, small);
      for (const balancer of [0, 1] as const)
        expect((await fetch(`${urlOf(balancer)}/server/users/count`, { headers: headersOf(small) })).status).toBe(200);
    },
  );

  async function isIn(name: CellName, { app_id: appId }: Credentials): Promise<boolean> {
    const projects: Json[] = await userdirJson(drill.cells[name].settings, ['project', 'list']);
    return projects.some(({ app_id }) => app_id === appId);
  }
});
