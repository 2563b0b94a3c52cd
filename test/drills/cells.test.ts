import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../support/app.js';
import { type Credentials, outcomeOf, spawnUserdir, userdir, userdirJson } from '../support/command.js';
import { type CellName, missingPrograms, startCells } from './cells.js';
import { graphql, headersOf, RETRYABLE, startLoad } from './load.js';

/** A project moves between two cells while it is used: how long it is held, and whether anything acknowledged is lost. */

const USERS = 20_000;
/** Load before a move, and after it. */
const STEADY_MS = 2_000;
const MAX_HELD_MS = 2_000;

describe.skipIf(missingPrograms.length > 0)('a project of one of two cells', () => {
  let drill: Awaited<ReturnType<typeof startCells>>;
  let project: Credentials;
  /** One in each cell. */
  let neighbors: Credentials[];

  beforeAll(async () => {
    drill = await startCells();
    const { cell1, cell2 } = drill.cells;
    project = await userdirJson(cell1.settings, ['project', 'create', '--name', 'Moves']);
    await userdirJson(cell1.settings, ['seed', '--project', project.app_id, '--users', String(USERS)]);
    neighbors = [
      await userdirJson(cell1.settings, ['project', 'create', '--name', 'Stays']),
      await userdirJson(cell2.settings, ['project', 'create', '--name', 'Is there']),
    ];
    const { app_id } = neighbors[1] as Credentials;
    const { settings } = drill.moveCommand(app_id, 'cell1', 'cell2');
    await runScript(settings, app_id, 'cell2');
  });
  afterAll(() => drill?.stop());

  /** What an operator does for a new project of the second cell. */
  async function runScript(settings: Record<string, string>, appId: string, argument: string) {
    const { execFileSync } = await import('node:child_process');
    const env = { ...process.env, ...settings, USERDIR_APP_ID: appId };
    execFileSync('docs/cells/cells.sh', [argument], { env });
  }

  /** Puts load on all projects through `work`. Expects that nothing is lost, and that the neighbors notice nothing. */
  async function underLoad(work: () => Promise<void>) {
    const loads = [project, ...neighbors].map((each, index) => startLoad(drill.url, each, index === 0 ? 4 : 1));
    await sleep(STEADY_MS);
    await work();
    await sleep(STEADY_MS);
    const [moved, ...others] = await Promise.all(loads.map((load) => load.stop()));
    if (moved === undefined) throw new Error('There is no load.');
    expect([moved, ...others].map(({ lost, missing }) => ({ lost, missing }))).toEqual(
      [moved, ...others].map(() => ({ lost: 0, missing: 0 })),
    );
    expect(others.map(({ failures }) => [...failures])).toEqual(others.map(() => []));
    expect([...moved.failures.keys()].filter((what) => !RETRYABLE.test(what))).toEqual([]);
    return { ...moved, failed: [...moved.failures.values()].reduce((sum, count) => sum + count, 0) };
  }

  /** Expects that a cell has the project and the other nothing of it, and that all totals are exact. */
  async function expectOnlyIn(name: CellName): Promise<void> {
    for (const cell of Object.values(drill.cells)) {
      const projects: Json[] = await userdirJson(cell.settings, ['project', 'list']);
      expect(projects.some(({ app_id }) => app_id === project.app_id)).toBe(cell.name === name);
      expect(await userdirJson(cell.settings, ['totals', 'check'])).toMatchObject({ differences: [] });
      expect(await countRests(cell.databaseUrl)).toEqual({ moves: 0, publications: 0, subscriptions: 0, slots: 0 });
    }
  }

  async function countRests(url: string) {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    const { rows } = await client.query(`
      SELECT (SELECT count(*)::int FROM project_moves) AS moves, (SELECT count(*)::int FROM pg_publication) AS publications,
             (SELECT count(*)::int FROM pg_subscription) AS subscriptions, (SELECT count(*)::int FROM pg_replication_slots) AS slots`);
    await client.end();
    return rows[0];
  }

  const cursorOf = async () =>
    (await graphql(drill.url, project, '{ changes(after: "now") { pageInfo { endCursor } } }')).body.data.changes
      .pageInfo.endCursor;

  test('moves under load: held for two seconds at most, nothing lost, others undisturbed', async ({ annotate }) => {
    const cursor = await cursorOf();
    let result: Json;
    const load = await underLoad(async () => {
      const { settings, args } = drill.moveCommand(project.app_id, 'cell1', 'cell2');
      result = await userdirJson(settings, args);
    });
    expect(result).toMatchObject({ outcome: 'moved', rows: expect.any(Number) });
    expect(result.held_ms).toBeLessThan(MAX_HELD_MS);
    await expectOnlyIn('cell2');
    // Those who follow the project read it again.
    const response = await fetch(`${drill.url}/changes?after=${cursor}`, { headers: headersOf(project) });
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
    let [from, to]: [CellName, CellName] = ['cell2', 'cell1'];
    const load = await underLoad(async () => {
      for (const { at, notice, option } of KILLS) {
        const { settings, args } = drill.moveCommand(
          project.app_id,
          from,
          to,
          option ? { [option]: 'kill -9 $PPID' } : {},
        );
        const child = spawnUserdir(settings, args);
        child.stderr.on('data', (text) => {
          if (notice !== undefined && String(text).includes(notice)) child.kill('SIGKILL');
        });
        expect([at, (await outcomeOf(child)).signal]).toEqual([at, 'SIGKILL']);
        const command = drill.moveCommand(project.app_id, from, to);
        const { code, stderr } = await userdir(command.settings, command.args);
        expect([at, code, code === 0 ? '' : stderr]).toEqual([at, 0, '']);
        [from, to] = [to, from];
      }
    });
    await expectOnlyIn(from);
    await annotate(
      `${KILLS.length} moves, each killed once: ${load.acknowledged} acknowledged, ${load.lost} lost, ${load.failed} answered with 503`,
    );
  });
});
