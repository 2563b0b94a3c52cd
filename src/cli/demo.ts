import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError } from '../errors.js';
import type { Credentials } from '../domain/projects.js';
import type { Services } from '../services/services.js';
import { syntheticUsers } from '../services/synthetic-users.js';

const DEMO_USERS = 200;
const DEMO_SEED = 1;

/**
 * The demo project: made by the first start on a database that has no project at all, its credentials kept in
 * `demo.json` beside the embedded database. Null where there is none, or where its credentials are no longer good.
 */
export async function openDemo(services: Services, dataDir: string, mayMake: boolean): Promise<Credentials | null> {
  const path = join(dataDir, 'demo.json');
  const kept = await readDemo(path);
  if (kept !== null && (await isGood(services, kept))) return kept;
  return mayMake ? makeDemo(services, path) : null;
}

/** The credentials are written down before there is a project that they open, so a start that was killed meanwhile is resumed. */
async function makeDemo(services: Services, path: string): Promise<Credentials | null> {
  const draft = `${path}.draft`;
  let credentials = await readDemo(draft);
  if (credentials === null || !(await isGood(services, credentials))) {
    if ((await services.projects.listProjects()).length > 0) return null;
    credentials = services.projects.mintCredentials();
    const { appId, appSecret } = credentials;
    await writeFile(draft, `${JSON.stringify({ app_id: appId, app_secret: appSecret }, null, 2)}\n`, { mode: 0o600 });
    await services.projects.createProject('Demo', credentials);
  }
  const scope = await services.projects.getScope(credentials.appId);
  await services.transfers.addUsers(scope, syntheticUsers(DEMO_USERS, DEMO_SEED), () => undefined);
  await rename(draft, path);
  return credentials;
}

async function readDemo(path: string): Promise<Credentials | null> {
  try {
    const { app_id: appId, app_secret: appSecret } = JSON.parse(await readFile(path, 'utf8'));
    return typeof appId === 'string' && typeof appSecret === 'string' ? { appId, appSecret } : null;
  } catch {
    return null;
  }
}

async function isGood(services: Services, credentials: Credentials): Promise<boolean> {
  try {
    await services.projects.authenticate(credentials);
    return true;
  } catch (error) {
    if (error instanceof AppError && error.code === 'UNAUTHENTICATED') return false;
    throw error;
  }
}
