import type { OnFailure } from '../db/background.js';
import { createBatchedRead } from '../db/batched-read.js';
import type { Database } from '../db/database.js';
import { atMost, isTooLong } from '../domain/input-limits.js';
import { type Operator, requirePermission, THE_OPERATOR } from '../domain/operators.js';
import {
  APP_ID,
  type Credentials,
  makeSecret,
  noProject,
  type OpenProject,
  type Permission,
  type ProjectRow,
  type ProjectScope,
  type ProjectSummary,
  requireProjectName,
} from '../domain/projects.js';
import { badInput } from '../errors.js';
import { type CredentialChecks, createCredentialChecks, hashSecret, projectDisabled } from './credentials.js';
import * as sql from './projects.sql.js';
import { actorNameOf, operatorScope } from './scopes.js';

/** Projects, and who may act on them. */
export interface Projects extends CredentialChecks {
  /** The scope of an operator, who may do in each of their projects what the role allows. NOT_FOUND. */
  getScope(appId: string, operator?: Operator): Promise<ProjectScope>;
  /** The scope of an enabled project. NOT_FOUND, PROJECT_DISABLED. */
  getEnabledScope(appId: string, operator: Operator): Promise<ProjectScope>;
  /** A project for an operator; null if none of theirs has this App ID. */
  openProject(appId: string, operator: Operator): Promise<OpenProject | null>;
  /** Refuses what an operator has begun by a scope and, as they are known now, may no longer do. NOT_FOUND, FORBIDDEN. */
  requireStill(scope: ProjectScope, operator: Operator, permission: Permission): void;
  /** A page of the operator's projects whose name or App ID contains a text, and the number of all that do. BAD_USER_INPUT. */
  openProjects(operator: Operator, page: Omit<sql.ProjectPage, 'among'>): Promise<OpenProjects>;
  /** An App ID and App Secret that no project has. */
  mintCredentials(): Credentials;
  /** A new project with its first secret. Only the hash is stored, so the secret is returned this once. BAD_USER_INPUT. */
  createProject(name: string, options?: CreateOptions): Promise<CreatedProject>;
  /** Some projects with their number of users, and the number of all projects. */
  sampleProjects(limit: number): Promise<ProjectSummary[]>;
  countProjects(): Promise<number>;
}

export interface OpenProjects {
  readonly projects: OpenProject[];
  readonly total: number;
  readonly hasNext: boolean;
}

export interface CreateOptions {
  readonly by?: Operator;
  readonly requestId?: string | null;
  readonly credentials?: Credentials;
}

export interface CreatedProject extends Credentials {
  readonly id: number;
  readonly name: string;
}

const APP_ID_BYTES = 12;

export function createProjects(db: Database, randomBytes: (size: number) => Buffer, onFailure: OnFailure): Projects {
  const projectOf = createBatchedRead({
    name: 'projects',
    read: (appIds: readonly string[]) => sql.findProjects(db, appIds),
    answer: ([row]) => row ?? null,
  });

  async function openProject(appId: string, operator: Operator): Promise<OpenProject | null> {
    const row = APP_ID.test(appId) ? await projectOf(appId) : null;
    return row && open(row, operator);
  }

  const mintCredentials = (): Credentials => ({
    appId: `app_${randomBytes(APP_ID_BYTES).toString('hex')}`,
    appSecret: makeSecret(randomBytes),
  });

  return {
    ...createCredentialChecks(db, onFailure),
    openProject,
    mintCredentials,

    async getScope(appId, operator = THE_OPERATOR) {
      const projectId = APP_ID.test(appId) ? await sql.findProjectId(db, appId) : null;
      const scope = projectId === null ? null : operatorScope(projectId, appId, operator);
      if (scope === null) throw noProject(appId);
      return scope;
    },

    async getEnabledScope(appId, operator) {
      const project = await openProject(appId, operator);
      if (project === null) throw noProject(appId);
      if (project.disabledAt !== null) throw projectDisabled();
      return project.scope;
    },

    requireStill(scope, operator, permission) {
      const now = operatorScope(scope.projectIdFor(permission), scope.appId, operator);
      if (now === null) throw noProject(scope.appId);
      now.projectIdFor(permission);
    },

    async openProjects(operator, { search, limit, ...page }) {
      if (search !== null && isTooLong('projectName', search))
        throw badInput('search', search, `text of ${atMost('projectName')}`);
      const rows = await sql.listProjectPage(db.replicaReads, {
        among: operator.projects,
        search: search?.trim() || null,
        ...page,
        limit: limit + 1,
      });
      const projects = rows.flatMap((row) => (row.id === null ? [] : (open(row as ProjectRow, operator) ?? [])));
      return {
        projects: projects.slice(0, limit),
        total: rows[0]?.total ?? 0,
        hasNext: projects.length > limit,
      };
    },

    async createProject(name, { by = THE_OPERATOR, requestId = null, credentials = mintCredentials() } = {}) {
      requirePermission(by, 'govern');
      const { appId, appSecret } = credentials;
      const data = {
        name: requireProjectName(name),
        appId,
        secrets: { create: { secretHash: hashSecret(appSecret) } },
        audit: { create: { actor: actorNameOf(by), action: 'create' as const, requestId, details: {} } },
      };
      const project = await db.models((models) => models.project.create({ data }));
      return { id: project.id, name: project.name, appId, appSecret };
    },

    sampleProjects: (limit) => sql.sampleProjects(db, limit),
    countProjects: () => sql.countProjects(db),
  };
}

/** A project with its scope for an operator; null if it is none of theirs. */
function open(row: ProjectRow, operator: Operator): OpenProject | null {
  const scope = operatorScope(row.id, row.appId, operator);
  return scope && { ...row, scope };
}
