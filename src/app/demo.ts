import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { readPrivateFile, writePrivateFile } from '../config/private-files.js';
import type { Services } from '../context.js';
import type { UserRecord } from '../domain/identities.js';
import type { Credentials } from '../domain/projects.js';
import { AppError } from '../errors.js';
import { FIRST_DAY, LAST_DAY, syntheticUsers } from '../users/synthetic-users.js';

const DEMO_USERS = 200;
const DEMO_SEED = 1;
/** In how much time before now those by Google have signed up: less than a chart shows. */
const RECENT_MS = 28 * 86_400_000;
/** In each of so many months until now one or two have signed up by passkey. */
const MONTHS = 24;

/**
 * Returns the credentials of the demo project, or null if there is none or its credentials are no longer valid. The first start on a
 * database without projects creates it (if `mayCreate`) and stores its credentials in `demo.json` beside the embedded database.
 */
export async function openDemo(services: Services, dataDir: string, mayCreate: boolean): Promise<Credentials | null> {
  const path = join(dataDir, 'demo.json');
  const stored = await readDemo(path);
  if (stored !== null && (await areValid(services, stored))) return stored;
  return mayCreate ? createDemo(services, path) : null;
}

/** Stores the credentials before it creates the project, so that the next start can continue if this one is killed. */
async function createDemo(services: Services, path: string): Promise<Credentials | null> {
  const draft = `${path}.draft`;
  let credentials = await readDemo(draft);
  if (credentials === null || !(await areValid(services, credentials))) {
    if ((await services.projects.countProjects()) > 0) return null;
    credentials = services.projects.mintCredentials();
    const { appId, appSecret } = credentials;
    await writePrivateFile(draft, `${JSON.stringify({ app_id: appId, app_secret: appSecret }, null, 2)}\n`);
    await services.projects.createProject('Demo', { credentials });
  }
  const scope = await services.projects.getScope(credentials.appId);
  await services.transfers.addUsers(scope, demoUsers(Date.now()));
  await rename(draft, path);
  return credentials;
}

/** Users of any day, as the documentation shows them, but for two methods: what shows a time until now has some to show. */
function* demoUsers(now: number): Generator<UserRecord> {
  let passkeys = 0;
  for (const user of syntheticUsers(DEMO_USERS, DEMO_SEED)) {
    if (user.authMethod === 'google') yield movedTo(user, now - RECENT_MS, now, now);
    else if (user.authMethod !== 'passkey') yield user;
    else {
      const month = new Date(now).getUTCMonth() - (passkeys % MONTHS);
      const startOf = (month: number) => Date.UTC(new Date(now).getUTCFullYear(), month);
      yield movedTo(user, startOf(month), Math.min(startOf(month + 1), now), now);
      passkeys += 1;
    }
  }
}

/** The user, registered between two instants, and logged in until `now`. */
function movedTo({ createdAt, lastLogin, ...user }: UserRecord, from: number, to: number, now: number): UserRecord {
  const moved = (day: Date | null, end: number) =>
    day && new Date(from + (end - from) * ((day.getTime() - FIRST_DAY) / (LAST_DAY - FIRST_DAY)));
  return { ...user, createdAt: moved(createdAt, to), lastLogin: moved(lastLogin, now) };
}

async function readDemo(path: string): Promise<Credentials | null> {
  try {
    const { app_id: appId, app_secret: appSecret } = JSON.parse(await readPrivateFile(path));
    return typeof appId === 'string' && typeof appSecret === 'string' ? { appId, appSecret } : null;
  } catch {
    return null;
  }
}

/** The credentials that a page shows: none once they are revoked, or while that cannot be known. */
export async function shownDemo(services: Services, demo: Credentials | null): Promise<Credentials | null> {
  if (demo === null) return null;
  return (await areValid(services, demo).catch(() => false)) ? demo : null;
}

async function areValid(services: Services, credentials: Credentials): Promise<boolean> {
  try {
    await services.projects.authenticate(credentials);
    return true;
  } catch (error) {
    if (error instanceof AppError && ['UNAUTHENTICATED', 'PROJECT_DISABLED'].includes(error.code)) return false;
    throw error;
  }
}
