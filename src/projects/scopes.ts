import { type Operator, PERMISSIONS_OF_ROLE, requirePermission } from '../domain/operators.js';
import {
  type Actor,
  type Caller,
  OPERATOR,
  type Permission,
  type ProjectScope,
  SECRET_SCOPES,
  type SecretScope,
} from '../domain/projects.js';
import { AppError } from '../errors.js';
import type { SecretRow } from './secrets.sql.js';

/** The scope of a secret. */
export function secretScope(appId: string, { projectId, label, requestsPerMinute, ...row }: SecretRow): ProjectScope {
  const permissions = row.scopes.split(' ') as SecretScope[];
  const caller = { projectName: row.projectName, scopes: permissions, expiresAt: row.expiresAt };
  return mintScope({ projectId, appId, actor: label, permissions, requestsPerMinute, caller }, (...needed) => {
    const missing = SECRET_SCOPES.filter((scope) => needed.includes(scope)).join(' or ');
    const has = permissions.join(', ');
    const refusal =
      missing === '' ? 'Only operators may do this.' : `The App Secret lacks the scope ${missing}; it has ${has}.`;
    throw new AppError('FORBIDDEN', refusal);
  });
}

/** The operator in the audit trail. No secret may have such a label. */
export function actorNameOf({ name }: Pick<Operator, 'name'>): string {
  return name === '' ? OPERATOR : `${OPERATOR}:${name}`;
}

/** The scope of an operator; null in a project that is not theirs, for which everything is answered as where there is none. */
export function operatorScope(projectId: number, appId: string, operator: Operator): ProjectScope | null {
  if (operator.projects !== null && !operator.projects.includes(projectId)) return null;
  const permissions = PERMISSIONS_OF_ROLE[operator.role];
  return mintScope(
    { projectId, appId, actor: actorNameOf(operator), permissions, requestsPerMinute: null, caller: null },
    (...needed) => requirePermission(operator, ...needed),
  );
}

interface Mint {
  readonly projectId: number;
  readonly appId: string;
  readonly actor: string;
  readonly permissions: readonly Permission[];
  readonly requestsPerMinute: number | null;
  readonly caller: Caller | null;
}

function mintScope(mint: Mint, refuse: (...needed: Permission[]) => void): ProjectScope {
  const { projectId, appId, actor, permissions, requestsPerMinute, caller } = mint;
  const projectIdFor = (permission: Permission, orPermission: Permission = permission) => {
    if (!permissions.includes(permission) && !permissions.includes(orPermission)) refuse(permission, orPermission);
    return projectId;
  };
  const actorFor = (permission: Permission, requestId: string | null, orPermission?: Permission): Actor => ({
    projectId: projectIdFor(permission, orPermission),
    actor,
    requestId,
  });
  const permits = (permission: Permission) => permissions.includes(permission);
  return { appId, actor, requestsPerMinute, caller, projectIdFor, actorFor, permits } as ProjectScope;
}
