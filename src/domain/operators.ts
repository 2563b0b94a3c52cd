import { z } from 'zod';
import type * as models from '../db/generated/prisma/client.js';
import { OperatorRole } from '../db/generated/prisma/enums.js';
import { AppError } from '../errors.js';
import { INPUT_LIMITS, isTooLong, OPERATOR_NAME_FORM } from './input-limits.js';
import { OPERATOR_ROLES } from './operator-roles.js';
import { says } from './parse.js';
import type { Permission, ProjectRow } from './projects.js';
import type { AsRead } from './user-columns.js';

export { OperatorRole } from '../db/generated/prisma/enums.js';

/** A person with a role who operates the service. The command has every right, under the name of the person who runs it. */
export interface Operator {
  readonly name: string;
  readonly role: OperatorRole;
  /** The ids of the projects to which they are limited; null: all projects are theirs. */
  readonly projects: readonly number[] | null;
}

/** An operator without a name, who has every right: the service itself, such as when it makes the demo project. */
export const THE_OPERATOR: Operator = { name: '', role: OperatorRole.admin, projects: null };

/** The least role for each act in a project. The roles after it in `OPERATOR_ROLES` may do it too. */
export const LEAST_ROLE: Readonly<Record<Permission, OperatorRole>> = {
  read: 'viewer',
  verify: 'viewer',
  inspect: 'viewer',
  remove: 'support',
  restore: 'support',
  ban: 'support',
  edit: 'support',
  write: 'admin',
  changes: 'admin',
  webhooks: 'admin',
  operate: 'admin',
};

/** Acts on all projects together: to see the status, or to add projects and manage operators. An operator of some projects may do neither. */
export type ServicePermission = 'oversee' | 'govern';

const LEAST_ROLE_OVER_ALL: Readonly<Record<ServicePermission, OperatorRole>> = {
  oversee: 'viewer',
  govern: 'admin',
};

/** The acts that a role may do, of a table of the least roles. */
function actsOf<Act extends string>(role: OperatorRole, leastRoles: Readonly<Record<Act, OperatorRole>>): Act[] {
  const roles = OPERATOR_ROLES.slice(0, OPERATOR_ROLES.indexOf(role) + 1);
  return (Object.keys(leastRoles) as Act[]).filter((act) => roles.includes(leastRoles[act]));
}

/** Permissions of each role, in every project of the operator. */
export const PERMISSIONS_OF_ROLE: Readonly<Record<OperatorRole, readonly Permission[]>> = {
  viewer: actsOf('viewer', LEAST_ROLE),
  support: actsOf('support', LEAST_ROLE),
  admin: actsOf('admin', LEAST_ROLE),
};

/** All that an operator may do. */
export function permissionsOf({ role, projects }: Operator): readonly (Permission | ServicePermission)[] {
  return [...PERMISSIONS_OF_ROLE[role], ...(projects === null ? actsOf(role, LEAST_ROLE_OVER_ALL) : [])];
}

/** Throws FORBIDDEN unless the operator has one of the permissions. */
export function requirePermission(
  operator: Operator,
  ...permissions: readonly (Permission | ServicePermission)[]
): void {
  const allowed = (one: Operator) => permissionsOf(one).some((permission) => permissions.includes(permission));
  if (allowed(operator)) return;
  const { name, role } = operator;
  if (allowed({ ...operator, projects: null }))
    throw new AppError('FORBIDDEN', `This needs an operator of all projects; ${name} is limited to some.`);
  const roles = OPERATOR_ROLES.filter((otherRole) => allowed({ name, role: otherRole, projects: null })).join(' or ');
  throw new AppError('FORBIDDEN', `This needs the role ${roles}; ${name} has the role ${role}.`);
}

const MOST = INPUT_LIMITS.operatorName.max;
const NAME = /^[a-z0-9][a-z0-9._@+-]*$/i;

/** The name of an operator. Upper and lower case are the same. */
export const operatorName = (argument: string) => {
  const error = says(argument, OPERATOR_NAME_FORM);
  return (
    z
      .string({ error })
      .refine((text) => !isTooLong('operatorName', text), { error, abort: true })
      // Before the case is dropped: the Kelvin sign would become a k.
      .refine((text) => NAME.test(text), { error })
      .transform((text) => text.toLowerCase())
  );
};

/** The name of an operator from that of a system user, which may have other characters. */
export function operatorNameOf(systemUser: string): string {
  const name = systemUser
    .toLowerCase()
    .slice(0, 256)
    .replace(/[^a-z0-9._@+-]+/g, '-')
    .replace(/^[^a-z0-9]+/, '')
    .slice(0, MOST);
  return name === '' ? 'admin' : name;
}

/** An operator as it is listed. Instants are ISO 8601 text. */
export interface KnownOperator
  extends Pick<Operator, 'name' | 'role'>,
    Readonly<AsRead<Pick<models.Operator, 'createdAt' | 'lastSeenAt'>>> {
  /** The projects to which they are limited, by name; null: all projects are theirs. */
  readonly projects: readonly Pick<ProjectRow, 'appId' | 'name'>[] | null;
  /** By someone, here or with the command, or by the single sign-on. */
  readonly source: 'added' | 'sso';
}

/** A session of the dashboard as it is listed. */
export interface OperatorSession
  extends Readonly<AsRead<Omit<models.OperatorSession, 'operatorId' | 'tokenHash' | 'passkeyId'>>> {
  readonly operator: string;
  /** One of the single sign-on may also be given a link. */
  readonly by: 'link' | 'passkey' | 'link or sso';
}

/** The session of a request, with its operator. */
export interface ActiveSession extends OperatorSession, Pick<Operator, 'role' | 'projects'> {
  readonly operatorId: number;
}

/** An entry of the log of what was done beside the projects. */
export interface OperatorLogEntry extends Readonly<AsRead<Omit<models.OperatorLogEntry, 'action' | 'details'>>> {
  readonly action: OperatorAction;
  readonly details: Record<string, unknown>;
}

/** Each action of the log as a reader has it: someone … */
export const OPERATOR_WORDS = {
  add_operator: 'added an operator',
  set_role: 'changed a role',
  update_operator: 'changed an operator',
  remove_operator: 'removed an operator',
  make_link: 'made a sign-in link',
  log_in: 'signed in',
  log_out: 'signed out',
  revoke_session: 'ended a session',
  add_passkey: 'added a passkey',
  remove_passkey: 'removed a passkey',
  delete_project: 'deleted a project',
  move_project: 'moved a project',
  refuse: 'was refused',
} as const;
export type OperatorAction = keyof typeof OPERATOR_WORDS;

/** To how many projects an operator can be limited: they are read with each request. */
export const MAX_PROJECTS = 1_000;

export const MAX_USER_AGENT = 200;
/** A new session of an operator ends the oldest beyond these. */
export const MAX_SESSIONS = 100;

/** The link by which a browser signs in at the dashboard. */
export const loginLink = (dashboardUrl: string, { token }: Pick<BegunSession, 'token'>): string =>
  `${dashboardUrl}#login=${token}`;

/** A session that has just begun: its token is known here only. */
export interface BegunSession extends Pick<OperatorSession, 'operator' | 'expiresAt'> {
  readonly token: string;
}

/** A log-in is refused. The log says more of it than the message. */
export class RefusedLogIn extends AppError {
  constructor(
    message: string,
    readonly details: Readonly<Record<string, string | number>> = {},
  ) {
    super('UNAUTHENTICATED', message);
  }
}
