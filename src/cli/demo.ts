import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError } from '../errors.js';
import type { Credentials } from '../services/projects.js';
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
  if (!mayMake || (await services.projects.listProjects()).length > 0) return null;

  const { appId, appSecret } = await services.projects.createProject('Demo');
  await writeFile(path, `${JSON.stringify({ app_id: appId, app_secret: appSecret }, null, 2)}\n`, { mode: 0o600 });
  const scope = await services.projects.getScope(appId);
  await services.transfers.addUsers(scope, syntheticUsers(DEMO_USERS, DEMO_SEED), () => undefined);
  return { appId, appSecret };
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
  return services.projects.authenticate(credentials).then(
    () => true,
    (error) => {
      if (error instanceof AppError && error.code === 'UNAUTHENTICATED') return false;
      throw error;
    },
  );
}
