import type { Database } from '../db/database.js';
import { parse, userFilter, userId } from '../domain/filters.js';
import { parseIdentity, snakeCase } from '../domain/identities.js';
import type { SecretScope } from '../domain/projects.js';
import type { Services } from '../services/services.js';
import { syntheticUsers } from '../services/synthetic-users.js';
import type { OnConflict } from '../sql/import-users.js';
import { examineDatabase } from './database-findings.js';

/**
 * What the operator's command can do to a directory. Parameters and results are plain JSON, because an operation runs
 * either here or, where a server holds the embedded database, inside that server (control.ts). Results are what `--json` prints.
 */

export interface Directory {
  readonly db: Database;
  readonly services: Services;
  /** Migrations that opening the directory applied. */
  readonly applied: readonly string[];
}

export interface Io {
  readonly input: AsyncIterable<Buffer>;
  /** How long the input is, where that is known before its end. */
  readonly inputBytes?: number | undefined;
  readonly write: (chunk: string) => Promise<void>;
  readonly progress: (progress: Progress) => void;
  readonly signal: AbortSignal;
}

export interface Progress {
  /** How many are done: lines, users. */
  readonly done: number;
  /** How much of the whole that is, from 0 to 1, where that is known. */
  readonly fraction?: number;
}

const progressOf = (done: number, total: number): Progress => ({ done, fraction: total === 0 ? 1 : done / total });

const userIdArgument = userId('USER_ID');

async function allAppIds(services: Services): Promise<string[]> {
  return (await services.projects.listProjects()).map(({ appId }) => appId);
}

async function identityOf({ services }: Directory, params: { project: string; method: string; value: string }) {
  const scope = await services.projects.getScope(params.project);
  return { scope, identity: parseIdentity({ authMethod: params.method, authValue: params.value }, snakeCase) };
}

export const operations = {
  doctor: examineDatabase,

  async migrate({ applied }: Directory) {
    return { applied };
  },

  async 'project create'({ services }: Directory, { name }: { name: string }) {
    const project = await services.projects.createProject(name);
    return { id: project.id, name: project.name, app_id: project.appId, app_secret: project.appSecret };
  },

  async 'project list'({ services }: Directory) {
    const projects = await services.projects.listProjects();
    return projects.map(({ id, name, appId, createdAt, totalUser }) => ({
      id,
      name,
      app_id: appId,
      created_at: createdAt,
      total_user: totalUser,
    }));
  },

  async 'project rotate'({ services }: Directory, params: { appId: string; label: string; overlapMs: number }) {
    const rotated = await services.secrets.rotateSecret(await services.projects.getScope(params.appId), params);
    return {
      app_id: params.appId,
      app_secret: rotated.appSecret,
      previous_expires_at: rotated.previousExpiresAt,
      id: rotated.id,
      label: params.label,
      scopes: rotated.scopes,
      expires_at: rotated.expiresAt,
      other_labels: rotated.otherLabels,
    };
  },

  async 'project secrets'({ services }: Directory, { appId }: { appId: string }) {
    const secrets = await services.secrets.listSecrets(await services.projects.getScope(appId));
    return secrets.map(({ id, label, scopes, createdAt, lastUsedAt, expiresAt, isLive }) => ({
      id,
      label,
      scopes,
      created_at: createdAt,
      last_used_at: lastUsedAt,
      expires_at: expiresAt,
      live: isLive,
    }));
  },

  async 'project add-secret'(
    { services }: Directory,
    params: { appId: string; label: string; scopes: SecretScope[]; expiresInMs: number | null },
  ) {
    const added = await services.secrets.addSecret(await services.projects.getScope(params.appId), params);
    return {
      app_id: params.appId,
      app_secret: added.appSecret,
      id: added.id,
      label: params.label,
      scopes: added.scopes,
      expires_at: added.expiresAt,
    };
  },

  async 'project revoke'({ services }: Directory, { appId, secretId }: { appId: string; secretId: number }) {
    const label = await services.secrets.revokeSecret(await services.projects.getScope(appId), secretId);
    return { id: secretId, label };
  },

  async 'user import'(
    { services }: Directory,
    params: { project: string; onConflict: OnConflict; skipInvalid: boolean },
    { input, inputBytes, progress, signal }: Io,
  ) {
    const scope = await services.projects.getScope(params.project);
    const { onConflict, skipInvalid } = params;
    let readBytes = 0;
    async function* counted() {
      for await (const chunk of input) {
        readBytes += chunk.length;
        yield chunk;
      }
    }
    return services.transfers.importUsers(scope, counted(), {
      onConflict,
      skipInvalid,
      progress: (done) => progress(inputBytes ? { done, fraction: readBytes / inputBytes } : { done }),
      signal,
    });
  },

  async 'user export'({ services }: Directory, params: { project: string }, { write, progress, signal }: Io) {
    const scope = await services.projects.getScope(params.project);
    const total = await services.users.countUsers(scope, userFilter({}));
    const exported = await services.transfers.exportUsers(scope, {
      write,
      progress: (done) => progress(progressOf(done, Math.max(done, total))),
      signal,
    });
    return { exported: exported.users, bans: exported.bans };
  },

  async 'user remove'({ services }: Directory, params: { project: string; userId: string }) {
    const id = parse(userIdArgument, params.userId);
    await services.users.removeUser(await services.projects.getScope(params.project), id, null);
    return { id: Number(id) };
  },

  async 'user purge'(
    { services }: Directory,
    params: { project: string | null; olderThanMs: number },
    { progress, signal }: Io,
  ) {
    const appIds = params.project === null ? await allAppIds(services) : [params.project];
    const scopes = await Promise.all(appIds.map((appId) => services.projects.getScope(appId)));
    const counts = scopes.map((scope) => services.users.countRemoved(scope, params.olderThanMs));
    const total = (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
    let purged = 0;
    for (const scope of scopes) {
      const before = purged;
      purged += await services.users.purgeRemoved(scope, params.olderThanMs, (ofThis) => {
        const done = before + ofThis;
        progress(progressOf(done, Math.max(done, total)));
        signal.throwIfAborted();
      });
    }
    return { purged };
  },

  async 'user ban'(directory: Directory, params: { project: string; method: string; value: string }) {
    const { scope, identity } = await identityOf(directory, params);
    await directory.services.logins.ban(scope, identity);
    return { auth_method: identity.authMethod, auth_value: identity.authValue, banned: true };
  },

  async 'user bans'({ services }: Directory, params: { project: string }) {
    const bans = await services.logins.listBans(await services.projects.getScope(params.project));
    return bans.map(({ authMethod, authValue, createdAt }) => ({
      auth_method: authMethod,
      auth_value: authValue,
      created_at: createdAt,
    }));
  },

  async 'user unban'(directory: Directory, params: { project: string; method: string; value: string }) {
    const { scope, identity } = await identityOf(directory, params);
    await directory.services.logins.unban(scope, identity);
    return { auth_method: identity.authMethod, auth_value: identity.authValue, banned: false };
  },

  async audit({ services }: Directory, params: { project: string; since: string | null; limit: number }) {
    const scope = await services.projects.getScope(params.project);
    const since = params.since === null ? null : new Date(params.since);
    const entries = await services.audit.listEntries(scope, since, params.limit);
    return entries.map(({ id, at, actor, requestId, action, userId, details }) => ({
      id,
      at,
      actor,
      request_id: requestId,
      action,
      user_id: userId,
      details,
    }));
  },

  async 'totals check'({ services }: Directory, params: { project: string | null; repair: boolean }, { progress }: Io) {
    const appIds = params.project === null ? await allAppIds(services) : [params.project];
    const differences = [];
    for (const [done, appId] of appIds.entries()) {
      const scope = await services.projects.getScope(appId);
      const found = await (params.repair ? services.totals.repair(scope) : services.totals.check(scope));
      differences.push(...found.map((difference) => ({ app_id: appId, ...difference })));
      progress(progressOf(done + 1, appIds.length));
    }
    return { projects: appIds.length, differences, repaired: params.repair && differences.length > 0 };
  },

  async seed({ services }: Directory, params: { project: string; users: number; seed: number }, io: Io) {
    const scope = await services.projects.getScope(params.project);
    return services.transfers.addUsers(scope, syntheticUsers(params.users, params.seed), (done) => {
      io.progress(progressOf(done, params.users));
      io.signal.throwIfAborted();
    });
  },
};

export type OperationName = keyof typeof operations;
export type Params<Name extends OperationName> = Parameters<(typeof operations)[Name]>[1];
export type Result<Name extends OperationName> = Awaited<ReturnType<(typeof operations)[Name]>>;

/** Runs an operation by its name; the types of its parameters and result follow from the name. */
export function runOperation<Name extends OperationName>(
  directory: Directory,
  name: Name,
  params: Params<Name>,
  io: Io,
): Promise<Result<Name>> {
  const operation = operations[name] as (directory: Directory, params: Params<Name>, io: Io) => Promise<Result<Name>>;
  return operation(directory, params, io);
}
