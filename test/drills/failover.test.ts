import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../support/app.js';
import { type Credentials, type RunningServer, startServer, userdirJson } from '../support/command.js';
import { missingPrograms, startPatroni } from './patroni.js';

/** Writes and reads through the end of a primary: how long nothing succeeds, and whether anything acknowledged is lost. */

const CLIENTS = 8;
const LOGIN = `mutation ($value: String!) { recordLogin(input: { authMethod: "passkey", authValue: $value }) { user { id } } }`;
/** Load before a fault, and after the service is back. */
const STEADY_MS = 3_000;

describe.skipIf(missingPrograms.length > 0)('a service on a PostgreSQL under Patroni', () => {
  let patroni: Awaited<ReturnType<typeof startPatroni>>;
  let server: RunningServer;
  let headers: Record<string, string>;

  beforeAll(async () => {
    patroni = await startPatroni();
    await patroni.healthy();
    const settings = {
      DATABASE_URL: patroni.url,
      DATA_DIR: `${patroni.folder}/userdir`,
      LOG_LEVEL: 'fatal',
      DEMO: 'off',
    };
    const project: Credentials = await userdirJson(settings, ['project', 'create', '--name', 'Drill']);
    headers = {
      'service-app-id': project.app_id,
      'service-app-secret': project.app_secret,
      'content-type': 'application/json',
    };
    server = await startServer({ ...settings, WORKERS: '2' });
  });
  afterAll(async () => {
    await server?.stop();
    await patroni?.stop();
  });

  const graphql = async (query: string, variables: object) => {
    const response = await fetch(`${server.url}/graphql`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ query, variables }),
    });
    return {
      status: response.status,
      retryAfter: response.headers.get('retry-after'),
      body: (await response.json()) as Json,
    };
  };

  /** Clients that register users and read each one right after. `stop` returns what happened. */
  function startLoad() {
    const acknowledged: string[] = [];
    const successes: number[] = [];
    const failures = new Map<string, number>();
    let missing = 0;
    let isOver = false;
    const fail = (what: string) => failures.set(what, (failures.get(what) ?? 0) + 1);
    const clients = Array.from({ length: CLIENTS }, async (_, client) => {
      for (let turn = 0; !isOver; turn += 1) {
        const { status, retryAfter, body } = await graphql(LOGIN, { value: `${performance.now()}-${client}-${turn}` });
        const id = body.data?.recordLogin?.user.id;
        if (id === undefined) {
          fail(`${status} ${body.errors[0].extensions.code} ${retryAfter}`);
          await sleep(20);
          continue;
        }
        acknowledged.push(id);
        successes.push(performance.now());
        const found = await fetch(`${server.url}/server/users/${id}`, { headers });
        await found.arrayBuffer();
        if (found.status === 404) missing += 1;
        else if (found.status !== 200) fail(`${found.status} read ${found.headers.get('retry-after')}`);
      }
    });
    return {
      successes,
      async stop() {
        isOver = true;
        await Promise.all(clients);
        successes.sort((a, b) => a - b);
        const gapMs = Math.max(...successes.map((at, index) => at - (successes[index - 1] ?? at)));
        return { acknowledged, failures, missing, gapMs: Math.round(gapMs), lost: await countLost(acknowledged) };
      },
    };
  }

  async function countLost(ids: readonly string[]): Promise<number> {
    let lost = 0;
    for (let start = 0; start < ids.length; start += 100) {
      const { body } = await graphql('query ($ids: [ID!]!) { usersByIds(ids: $ids) { id } }', {
        ids: ids.slice(start, start + 100),
      });
      lost += body.data.usersByIds.filter((user: object | null) => user === null).length;
    }
    return lost;
  }

  /** Puts load on the service through `fault`. Expects that it goes on within `boundMs`, and that nothing is lost. */
  async function drill(fault: () => Promise<void>, boundMs: number): Promise<string> {
    const load = startLoad();
    await sleep(STEADY_MS);
    await fault();
    const before = performance.now();
    while (!load.successes.some((at) => at > before + STEADY_MS)) await sleep(100);
    const { acknowledged, failures, missing, gapMs, lost } = await load.stop();
    expect({ lost, missing }).toEqual({ lost: 0, missing: 0 });
    // Whatever failed could be sent again.
    expect([...failures.keys()].filter((what) => !/^503 (UNAVAILABLE|read) 1$/.test(what))).toEqual([]);
    expect(gapMs).toBeLessThan(boundMs);
    const failed = [...failures.values()].reduce((sum, count) => sum + count, 0);
    return `longest gap ${gapMs} ms, ${acknowledged.length} acknowledged, ${lost} lost, ${failed} answered with 503`;
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
