import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Json } from '../support/app.js';
import { HAPROXY } from '../support/balancer.js';
import { ROOT } from '../support/checkout.js';
import { BIN, type Cluster, createStandbyOf, freePort } from '../support/cluster.js';
import {
  type Credentials,
  outcomeOf,
  type RunningServer,
  type Settings,
  spawnUserdir,
  startServer,
  userdir,
  userdirJson,
} from '../support/command.js';
import { queryPostgres } from '../support/engines.js';
import { startFollower } from '../support/readers.js';
import { type Receiver, startReceiver } from '../support/receiver.js';
import { graphql, startLoad } from '../support/writers.js';
import { missingPrograms, startPatroni } from './patroni.js';

/** A database under Patroni is divided by promoting a standby, with the files of docs/split, under load, with webhooks and an import. */

const SCRIPT = join(ROOT, 'docs/split/split.sh');
const STEADY_MS = 2_000;
/** The first key of the lock of an import (users/transfers.sql.ts). */
const IMPORT_LOCK = 1_968_399_460;
const IMPORTED = 60_000;
const PATIENCE = { timeout: 120_000, interval: 100 };
/** The project that stays, and the one that goes to the second side. */
const NAMES = ['stays', 'goes'] as const;
type Name = (typeof NAMES)[number];

describe.skipIf(missingPrograms.length > 0 || !existsSync('/usr/bin/socat'))('a database that is divided', () => {
  let patroni: Awaited<ReturnType<typeof startPatroni>>;
  let standby: Cluster;
  let balancer: ChildProcess;
  let url: string;
  let receiver: Receiver;
  let ports: readonly [number, number];
  const sides: RunningServer[] = [];
  let projects: Record<Name, Credentials>;

  beforeAll(async () => {
    patroni = await startPatroni();
    await patroni.healthy();
    ports = [await freePort(), await freePort()];
    const create = async (name: Name) => {
      const project: Credentials = await userdirJson(settingsOf(0), ['project', 'create', '--name', name]);
      await userdirJson(settingsOf(0), ['seed', '--project', project.app_id, '--users', '3000']);
      return project;
    };
    projects = { stays: await create('stays'), goes: await create('goes') };
    receiver = await startReceiver();
    sides.push(await startSide(0));
    url = await startBalancer();
  });
  afterAll(async () => {
    await Promise.all(sides.map((side) => side.stop()));
    balancer?.kill();
    await receiver?.close();
    await standby?.drop();
    await patroni?.stop();
  });

  const databaseUrl = (side: 0 | 1) => (side === 0 ? patroni.url : standby.url);
  const settingsOf = (side: 0 | 1): Settings => ({
    DATABASE_URL: databaseUrl(side),
    DATA_DIR: join(patroni.folder, `side-${side}`),
    LOG_LEVEL: 'fatal',
    DEMO: 'off',
    WEBHOOKS_ALLOW_PRIVATE: 'on',
  });
  const startSide = (side: 0 | 1) => startServer({ ...settingsOf(side), PORT: String(ports[side]) });

  async function startBalancer(): Promise<string> {
    const port = await freePort();
    const text = readFileSync(join(ROOT, 'docs/split/haproxy.cfg'), 'utf8')
      .replaceAll('/etc/haproxy/', `${patroni.folder}/`)
      .replaceAll('/run/haproxy/', `${patroni.folder}/`)
      .replace('bind :8080', `bind 127.0.0.1:${port}`)
      .replace('first-a.example.com:4000', `127.0.0.1:${ports[0]}`)
      .replace('second-a.example.com:4000', `127.0.0.1:${ports[1]}`)
      .replaceAll(/(first|second)-b\.example\.com:4000/g, '127.0.0.1:1');
    const file = join(patroni.folder, 'sides.cfg');
    writeFileSync(file, text);
    writeFileSync(join(patroni.folder, 'sides.map'), '');
    balancer = spawn(HAPROXY, ['-db', '-f', file], { stdio: 'ignore' });
    const balanced = `http://127.0.0.1:${port}`;
    await vi.waitUntil(
      () =>
        fetch(`${balanced}/livez`).then(
          ({ ok }) => ok,
          () => false,
        ),
      PATIENCE,
    );
    return balanced;
  }

  const query = (side: 0 | 1, text: string) => queryPostgres(databaseUrl(side), text);

  const createdSince = async (side: 0 | 1, name: Name, newest: number) =>
    (
      await query(
        side,
        `SELECT u.id::int FROM users u JOIN projects p ON p.id = u.project_id
         WHERE u.id > ${newest} AND p.app_id = '${projects[name].app_id}' ORDER BY u.id`,
      )
    ).map(({ id }) => id);

  /** Everything that a project has and is asked while the database is divided. */
  async function startWork(name: Name) {
    const project = projects[name];
    const words = ['--project', project.app_id, '--types', 'user.created', '--url', receiver.url(`/${name}`)];
    const webhook: Json = await userdirJson(settingsOf(0), ['webhook', 'add', ...words]);
    receiver.expectSecret(`/${name}`, webhook.secret);
    return { name, follower: await startFollower(url, project), load: startLoad(url, project, 2) };
  }

  const runScript = (...args: string[]) =>
    promisify(execFile)(SCRIPT, args, {
      env: { PATH: `${BIN}:${process.env['PATH']}`, FIRST: patroni.url, SECOND: standby.url },
    });

  test('loses nothing, and each side serves its own projects', async ({ annotate }) => {
    const [{ newest }] = await query(0, 'SELECT max(id)::int AS newest FROM users');
    const access = join(patroni.folder, 'trusted.conf');
    writeFileSync(access, 'host all all 127.0.0.1/32 trust\n');
    // What Patroni has written into the files names standbys that the second side does not have.
    const settings = [`hba_file=${access}`, 'ident_file=pg_ident.conf', 'synchronous_standby_names='];
    standby = await createStandbyOf(patroni.replicationUrl, settings);
    const work = [await startWork('stays'), await startWork('goes')];
    await sleep(STEADY_MS);
    const lines = Array.from({ length: IMPORTED }, (_, line) =>
      JSON.stringify({ auth_method: 'custom', auth_value: `imported-${line}` }),
    ).join('\n');
    const importing = spawnUserdir(settingsOf(0), ['user', 'import', '--project', projects.goes.app_id, '--json']);
    importing.stdin.end(lines);
    const imported = outcomeOf(importing);
    // On a busy machine the command may take long to start. Afterwards it would import at the side where the project does not live.
    const isUnderWay = `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = ${IMPORT_LOCK})
      OR EXISTS (SELECT FROM users WHERE auth_value LIKE 'imported-%') AS begun`;
    await vi.waitUntil(async () => (await query(0, isUnderWay))[0]?.begun, PATIENCE);

    await expect(runScript('app_x', 'app_y')).rejects.toThrow('SECOND does not have each of these 2 projects.');
    const started = performance.now();
    await sides[0]?.stop();
    await runScript(projects.goes.app_id);
    sides.splice(0, 1, ...(await Promise.all([startSide(0), startSide(1)])));
    await promisify(execFile)('sh', [
      '-c',
      `echo 'add map ${patroni.folder}/sides.map ${projects.goes.app_id} second' | socat - UNIX-CONNECT:${patroni.folder}/admin.sock`,
    ]);
    await vi.waitUntil(() => work.every(({ load }) => load.successes.some((at) => at > started + STEADY_MS)), PATIENCE);
    await sleep(STEADY_MS);

    const report: string[] = [];
    for (const { name, load, follower } of work) {
      const side = name === 'stays' ? 0 : 1;
      const { acknowledged, gapMs, lost, missing } = await load.stop();
      expect({ name, lost, missing }).toEqual({ name, lost: 0, missing: 0 });
      const created = (await createdSince(side, name, newest)).filter((id) => id > newest);
      expect(created.length).toBeGreaterThanOrEqual(acknowledged);
      await vi.waitUntil(() => new Set(follower.created).size >= created.length, PATIENCE);
      await receiver.until(() => new Set(receiver.usersAt(`/${name}`)).size >= created.length);
      await follower.stop();
      const inOrder = (ids: readonly (number | null)[]) => ids.toSorted((a, b) => Number(a) - Number(b));
      expect(inOrder(follower.created)).toEqual(created);
      expect(inOrder(receiver.usersAt(`/${name}`))).toEqual(created);
      report.push(
        `${name}: longest time without a login ${gapMs} ms, ${acknowledged} acknowledged, 0 lost, ${created.length} changes`,
      );
    }
    expect(receiver.faults).toEqual([]);
    // As a whole or not at all: what was under way is run again at the side of its project.
    const { code } = await imported;
    const counted = async (side: 0 | 1) =>
      (await query(side, `SELECT count(*)::int AS count FROM users WHERE auth_value LIKE 'imported-%'`))[0]?.count;
    expect(await counted(1)).toBe(code === 0 ? IMPORTED : 0);
    report.push(`the import ended with ${code}`);
    await annotate(report.join('; '));
  });

  test('refuses a project at the side where it does not live, and deletes it there', async () => {
    for (const [side, other] of [
      [0, 'goes'],
      [1, 'stays'],
    ] as const) {
      const { status, body } = await graphql(sides[side]?.url ?? '', projects[other], '{ userCount }');
      expect([status, body.errors[0].extensions.code]).toEqual([403, 'PROJECT_DISABLED']);
      const deletion = ['project', 'delete', '--project', projects[other].app_id, '--yes'];
      expect((await userdir(settingsOf(side), deletion)).code).toBe(0);
      expect(await userdirJson(settingsOf(side), ['totals', 'check'])).toMatchObject({ projects: 1, differences: [] });
    }
    for (const name of NAMES) expect((await graphql(url, projects[name], '{ userCount }')).status).toBe(200);
  });
});
