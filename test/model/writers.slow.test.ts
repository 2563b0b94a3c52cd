import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import type { Json } from '../support/app.js';
import { type Cluster, createCluster, hasPostgres } from '../support/cluster.js';
import { type Credentials, type RunningServer, type Settings, startServer, userdirJson } from '../support/command.js';
import { copyTemplate, type TestDatabase } from '../support/engines.js';
import { requireSame } from './compare.js';
import { type Away, runWriters, told, writersOf } from './writers.js';

/** `npm run model -- --writers N --kills N` has more of both. */
const WRITERS = Number(process.env['MODEL_WRITERS'] ?? 4);
const KILLS = Number(process.env['MODEL_KILLS'] ?? 1);
const SEED = Number(process.env['MODEL_SEED'] ?? 1);
/** Of each writer between two kills. */
const ACTS = 25;
vi.setConfig({ testTimeout: 120_000 + KILLS * 120_000, hookTimeout: 120_000 });

/** A server that can be killed, and what else can be. */
interface Place {
  readonly settings: Settings;
  server: RunningServer;
}

const start = (settings: Settings) => startServer({ ...settings, DEMO: 'off', LOG_LEVEL: 'silent' });

async function awayOf(place: Place): Promise<Away> {
  const { settings } = place;
  const credentials: Credentials = await userdirJson(settings, ['project', 'create', '--name', 'Writers']);
  const project = ['--project', credentials.app_id];
  return {
    url: () => place.server.url,
    credentials,
    wrongTotals: async () => (await userdirJson(settings, ['totals', 'check', ...project])).differences,
    listBans: async () => {
      const bans: Json[] = await userdirJson(settings, ['user', 'bans', ...project]);
      return bans.map(({ auth_method: authMethod, auth_value: authValue, of_user: ofUser }) => ({
        ...{ authMethod, authValue },
        isOfUser: ofUser !== null,
      }));
    },
  };
}

/** Rounds of acts by several writers, with a kill in each, after a random act. */
async function runKills(place: Place, kill: () => Promise<void>): Promise<number> {
  let made = 0;
  for (let round = 0; round < KILLS; round += 1) {
    const seed = SEED + round;
    const writers = writersOf({ writers: WRITERS, acts: ACTS, seed });
    const away = await awayOf(place);
    // Not with the last acts, so that some are on their way.
    const last = Math.floor(Math.random() * WRITERS * (ACTS - 5));
    let answered = 0;
    let killed: Promise<void> | undefined;
    const killOnce = async () => {
      await sleep(Math.random() * 20);
      await kill();
    };
    try {
      const projects = await runWriters(away, writers, () => {
        made += 1;
        answered += 1;
        if (answered > last) killed ??= killOnce();
      });
      await killed;
      expect(killed).toBeDefined();
      const undisturbed = await awayOf(place);
      const right = await told(undisturbed, await runWriters(undisturbed, writers));
      requireSame('the feed', await told(away, projects), right);
    } catch (error) {
      throw new Error(`With --seed ${seed}, killed after ${last} acts: ${error}`);
    }
  }
  return made;
}

describe('several writers at once, each on persons of its own, are as the model', () => {
  let database: TestDatabase;
  let place: Place;
  beforeAll(async () => {
    database = await copyTemplate();
    place = { settings: database.env, server: await start(database.env) };
  });
  afterAll(async () => {
    await place.server.stop();
    await database.drop();
  });

  test(`while the server is killed (${KILLS} times, ${WRITERS} writers, seed ${SEED})`, async ({ annotate }) => {
    const made = await runKills(place, async () => {
      await place.server.stop('SIGKILL');
      place.server = await start(place.settings);
    });
    await annotate(`${made} acts`);
    expect(made).toBe(KILLS * WRITERS * ACTS);
  });
});

describe.runIf(inject('engine') === 'postgres' && hasPostgres)('and where PostgreSQL is killed', () => {
  let cluster: Cluster;
  let place: Place;
  beforeAll(async () => {
    cluster = await createCluster();
    const settings = { DATABASE_URL: cluster.url, DATA_DIR: '/nonexistent' };
    place = { settings, server: await start(settings) };
  });
  afterAll(async () => {
    await place.server.stop();
    await cluster.drop();
  });

  test(`while the server keeps running (${KILLS} times, ${WRITERS} writers, seed ${SEED})`, async ({ annotate }) => {
    const made = await runKills(place, async () => {
      await cluster.kill();
      await cluster.start();
    });
    await annotate(`${made} acts`);
    expect(made).toBe(KILLS * WRITERS * ACTS);
  });
});
