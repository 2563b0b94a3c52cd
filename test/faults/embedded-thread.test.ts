import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { afterEach, describe, expect, inject, test, vi } from 'vitest';
import { startTestApp, type TestApp, type TestProject } from '../support/app.js';
import { PATIENCE } from '../support/waiting.js';

/** The thread that runs PGlite can die, as a PostgreSQL process can. */

describe.runIf(inject('engine') === 'embedded')('an embedded database', () => {
  let app: TestApp;
  afterEach(() => app.close());

  /** An app with one user, and a function that ends the thread of its database. */
  async function start() {
    const spy = vi.spyOn(Worker.prototype, 'postMessage');
    app = await startTestApp({ ownDatabase: true });
    const worker = spy.mock.contexts.at(-1) as Worker;
    spy.mockRestore();
    const project = await app.createProject();
    await project.addUsers({ auth_method: 'email', auth_value: 'ada@example.com' });
    return { project, worker };
  }

  /** On a busy machine the time of a request may end while the database is opened: 503. */
  const REFUSED = [500, 503];
  const count = async (project: TestProject) => {
    const { status, body } = await project.rest('/server/users/count');
    return status === 200 ? body.result.total_user : status;
  };

  test('whose thread dies is reopened with all acknowledged writes', async () => {
    const { project, worker } = await start();
    const asked = Array.from({ length: 5 }, () => count(project));
    await worker.terminate();
    for (const answer of await Promise.all(asked)) expect([1, ...REFUSED]).toContain(answer);
    expect(await count(project)).toBe(1);
  });

  test('whose thread dies is reopened once, however many ask for it', async () => {
    const { project, worker } = await start();
    const { db } = app.context;
    const { starts } = db.engineUsage() as { starts: number };
    await worker.terminate();
    const answers = await Promise.all([1, 2, 3].map(() => count(project)));
    expect(db.engineUsage()).toMatchObject({ starts: starts + 1 });
    expect(answers).toContain(1);
  });

  test('whose thread dies goes on to publish changes for those who wait for them', async () => {
    const { project, worker } = await start();
    const { changes } = app.context.services;
    let published = 0;
    const stop = changes.listen(() => {
      published += 1;
    });
    changes.start();
    await vi.waitUntil(() => published > 0, PATIENCE);
    await worker.terminate();
    await vi.waitUntil(async () => (await count(project)) === 1, PATIENCE);
    const before = published;
    await project.addUsers({ auth_method: 'email', auth_value: 'bob@example.com' });
    await vi.waitUntil(() => published > before, PATIENCE);
    stop();
  });

  test('that cannot be reopened is tried again with every request', async () => {
    const { project, worker } = await start();
    const databaseDir = join(app.dataDir, 'pgdata');
    await rename(databaseDir, `${databaseDir}.away`);
    await writeFile(databaseDir, 'in the way');
    await worker.terminate();
    for (let tries = 0; tries < 2; tries += 1) expect(REFUSED).toContain(await count(project));
    await rm(databaseDir);
    await rename(`${databaseDir}.away`, databaseDir);
    // On a busy machine a request may end before the database is open.
    await vi.waitUntil(async () => (await count(project)) === 1, { timeout: 120_000 });
  });
});
