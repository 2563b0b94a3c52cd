import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Credentials, type RunningServer, startServer, userdirJson } from '../support/command.js';
import { RETRYABLE, startLoad } from '../support/writers.js';
import { missingPrograms, startPatroni } from './patroni.js';

/** Writes and reads through the end of a primary: how long nothing succeeds, and whether anything acknowledged is lost. */

const CLIENTS = 8;
/** Load before a fault, and after the service is back. */
const STEADY_MS = 3_000;

describe.skipIf(missingPrograms.length > 0)('a service on a PostgreSQL under Patroni', () => {
  let patroni: Awaited<ReturnType<typeof startPatroni>>;
  let server: RunningServer;
  let project: Credentials;

  beforeAll(async () => {
    patroni = await startPatroni();
    await patroni.healthy();
    const settings = {
      DATABASE_URL: patroni.url,
      DATA_DIR: `${patroni.folder}/userdir`,
      LOG_LEVEL: 'fatal',
      DEMO: 'off',
    };
    project = await userdirJson(settings, ['project', 'create', '--name', 'Drill']);
    server = await startServer(settings);
  });
  afterAll(async () => {
    await server?.stop();
    await patroni?.stop();
  });

  /** Puts load on the service through `fault`. Expects that it goes on within `boundMs`, and that nothing is lost. */
  async function drill(fault: () => Promise<void>, boundMs: number): Promise<string> {
    const load = startLoad(server.url, project, CLIENTS);
    await sleep(STEADY_MS);
    await fault();
    const before = performance.now();
    while (!load.successes.some((at) => at > before + STEADY_MS)) await sleep(100);
    const { acknowledged, failures, missing, gapMs, lost } = await load.stop();
    expect({ lost, missing }).toEqual({ lost: 0, missing: 0 });
    // Whatever failed could be sent again.
    expect([...failures.keys()].filter((what) => !RETRYABLE.test(what))).toEqual([]);
    expect(gapMs).toBeLessThan(boundMs);
    const failed = [...failures.values()].reduce((sum, count) => sum + count, 0);
    return `longest gap ${gapMs} ms, ${acknowledged} acknowledged, ${lost} lost, ${failed} answered with 503`;
  }

  test('goes on within 5 seconds of a switchover, and loses nothing', async ({ annotate }) => {
    const { leader, standby } = await patroni.healthy();
    await annotate(await drill(async () => void (await patroni.switchOver(leader, standby)), 5_000));
    expect((await patroni.healthy()).leader).toBe(standby);
  });

  test('goes on within 15 seconds of the death of the leader, which comes back by itself', async ({ annotate }) => {
    const { leader } = await patroni.healthy();
    await annotate(await drill(async () => patroni.kill(leader), 15_000));
    patroni.restart(leader);
    const healed = await patroni.healthy();
    expect(healed.leader).not.toBe(leader);
  });
});
