import { crc32 } from 'node:zlib';
import type * as models from '../db/generated/prisma/client.js';
import { type AuditAction, SecretScope } from '../db/generated/prisma/enums.js';
import { AppError, type ErrorCode, show } from '../errors.js';
import { INPUT_LIMITS, isTooLong } from './input-limits.js';
import type { AsRead } from './user-columns.js';

export { AuditAction, SecretScope } from '../db/generated/prisma/enums.js';

/** An act in a project: one that scopes of a secret allow, or one for operators by their role (domain/operators.ts). `operate` is all else. */
export type Permission = SecretScope | 'inspect' | 'remove' | 'restore' | 'ban' | 'edit' | 'operate';

/** The name of an operator without a name in the audit trail. */
export const OPERATOR = 'operator';
export const SECRET_SCOPES = Object.values(SecretScope);
/** A webhook outlives the secret with which it was added, so its scope must be asked for. */
export const USUAL_SCOPES = SECRET_SCOPES.filter((scope) => scope !== 'webhooks');

/** The label of the first secret of a project. */
export const MAIN_LABEL = 'main';

export interface Credentials {
  readonly appId: string;
  readonly appSecret: string;
}

/** The label of a secret, or the name of an operator (domain/operators.ts), and the project. */
export interface Actor {
  readonly projectId: number;
  readonly actor: string;
  readonly requestId: string | null;
}

/** The secret of a request, as its caller may see it. */
export interface Caller extends Readonly<AsRead<Pick<models.AppSecret, 'scopes' | 'expiresAt'>>> {
  readonly projectName: string;
}

declare const minted: unique symbol;

/**
 * The right to act on one project, which only `projects/projects.ts` makes: for a secret of the project, or for one of its operators.
 * The only way to the project's id is to name a permission, so no function can forget to check it.
 */
export interface ProjectScope {
  readonly appId: string;
  /** The label of a secret, or the name of an operator. It grants nothing. */
  readonly actor: string;
  /** The project's own limit of requests in a minute; null where RATE_LIMIT holds. */
  readonly requestsPerMinute: number | null;
  /** Null for an operator. */
  readonly caller: Caller | null;
  /** The project's id, for a caller with the permission, or with the other one. FORBIDDEN. */
  projectIdFor(permission: Permission, orPermission?: Permission): number;
  /** The project's id with the name of the actor, for the audit trail. FORBIDDEN. */
  actorFor(permission: Permission, requestId: string | null, orPermission?: Permission): Actor;
  permits(permission: Permission): boolean;
  readonly [minted]: true;
}

/** A project as an operator sees it. Since `disabledAt` its credentials are refused. RATE_LIMIT holds where `requestsPerMinute` is null. */
export type ProjectRow = Readonly<
  AsRead<Pick<models.Project, 'id' | 'appId' | 'name' | 'createdAt' | 'disabledAt' | 'requestsPerMinute'>>
>;

export interface ProjectSummary extends ProjectRow {
  readonly totalUser: number;
}

/** The result of a part of a deletion. */
export interface DeletedPart {
  readonly users: number;
  readonly isDone: boolean;
  readonly isBusy: boolean;
}

/** A project with an operator's right to act on it. */
export interface OpenProject extends ProjectRow {
  readonly scope: ProjectScope;
}

type SecretColumn = 'id' | 'label' | 'scopes' | 'createdAt' | 'lastUsedAt' | 'expiresAt';

export interface Secret extends Readonly<AsRead<Pick<models.AppSecret, SecretColumn>>> {
  readonly isLive: boolean;
}

/** A new secret as it is shown, this once. */
export interface NewSecret extends Pick<Secret, 'id' | 'scopes' | 'expiresAt'> {
  readonly appSecret: string;
}

export interface Rotation extends NewSecret {
  /** When the replaced secrets end. */
  readonly previousExpiresAt: string;
  /** Labels of secrets that are not affected. */
  readonly otherLabels: string[];
}

export interface AuditEntry extends Readonly<AsRead<Omit<models.AuditEntry, 'projectId' | 'details'>>> {
  readonly details: Record<string, unknown>;
}

/** The name of a project as it is stored, or BAD_USER_INPUT. */
export function requireProjectName(name: string): string {
  const trimmed = isTooLong('projectName', name) ? '' : name.trim();
  if (trimmed !== '' && !/[\p{Cc}\p{Cs}]/u.test(trimmed)) return trimmed;
  throw new AppError(
    'BAD_USER_INPUT',
    `A project's name is text of 1 to ${INPUT_LIMITS.projectName.max} characters on one line.`,
  );
}

/** NOT_FOUND for a project that was deleted while a request or a command for it waited. */
export function projectDeleted(): AppError {
  return new AppError('NOT_FOUND', 'The project has been deleted.');
}

/* `uds_`, 32 random bytes in base64url, and a checksum by which scanners recognise a leaked secret. */

const SECRET_BYTES = 32;
/** Of a secret without its checksum. */
const UNCHECKED_LENGTH = 47;
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** 62^6 is more than 2^32. */
const CHECKSUM_LENGTH = 6;

export function makeSecret(randomBytes: (size: number) => Buffer): string {
  const unchecked = `uds_${randomBytes(SECRET_BYTES).toString('base64url')}`;
  return unchecked + checksum(unchecked);
}

export const APP_ID = /^app_[0-9a-f]{24}$/;

function isSecret(text: string): boolean {
  const unchecked = text.slice(0, UNCHECKED_LENGTH);
  return /^uds_[\w-]{43}$/.test(unchecked) && text === unchecked + checksum(unchecked);
}

/** Why credentials are refused, for the log and the metrics. docs/operating.md says what to do. */
export const REFUSAL_REASONS = [
  'missing',
  'missing_app_id',
  'missing_secret',
  'bearer',
  'not_basic',
  'swapped',
  'quoted',
  'white_space',
  'malformed_app_id',
  'malformed_secret',
  'unknown_app_id',
  'wrong_secret',
  'project_disabled',
] as const;
export type RefusalReason = (typeof REFUSAL_REASONS)[number];

/** UNAUTHENTICATED or PROJECT_DISABLED. The caller is not told the reason where it says whether an App ID exists. */
export class RefusedCredentials extends AppError {
  constructor(
    readonly reason: RefusalReason,
    message: string,
    code: ErrorCode = 'UNAUTHENTICATED',
  ) {
    super(code, message);
  }
}

/** A reason, and the sentence that tells the caller. */
export type FaultInForm = readonly [reason: RefusalReason, sentence: string];

/** The fault that the form of refused credentials shows. It does not tell whether an App ID exists, because it looks at the form only. */
export function faultInForm({ appId, appSecret }: Credentials): FaultInForm | null {
  if (appId.startsWith('uds_') || appSecret.startsWith('app_'))
    return [
      'swapped',
      'An App ID begins with app_ and an App Secret with uds_: the two look swapped, or one is in both places.',
    ];
  for (const [name, text] of [
    ['App ID', appId],
    ['App Secret', appSecret],
  ] as const) {
    if (/^["'`]|["'`]$/.test(text)) return ['quoted', `The ${name} has quotes around it: send it without them.`];
    if (text !== text.trim())
      return ['white_space', `The ${name} has white space around it, such as a line break at its end.`];
  }
  if (/^app_/.test(appId) && !APP_ID.test(appId)) return ['malformed_app_id', 'The App ID looks cut or mistyped.'];
  if (!appSecret.startsWith('uds_') || isSecret(appSecret)) return null;
  return ['malformed_secret', 'The App Secret looks cut or mistyped.'];
}

/** The CRC-32 of the text before it, in base62, the highest digit first. */
function checksum(text: string): string {
  let rest = crc32(text);
  let digits = '';
  for (let index = 0; index < CHECKSUM_LENGTH; index += 1) {
    digits = BASE62.charAt(rest % BASE62.length) + digits;
    rest = Math.floor(rest / BASE62.length);
  }
  return digits;
}

/** A selection of the audit trail by conditions that all hold; null is none. */
export interface AuditFilter {
  readonly actor: string | null;
  readonly action: AuditAction | null;
  readonly userId: bigint | null;
  readonly since: Date | null;
  readonly until: Date | null;
}

/** Each action as a reader has it: someone … */
export const AUDIT_WORDS: Readonly<Record<AuditAction, string>> = {
  remove: 'removed a user',
  ban: 'banned a user or an identity',
  unban: 'ended a ban',
  import: 'imported users',
  purge: 'purged removed users',
  add_secret: 'added a secret',
  rotate: 'rotated a secret',
  revoke: 'revoked a secret',
  create: 'created the project',
  export: 'exported data',
  refuse: 'was refused',
  restore: 'restored a user',
  rename: 'renamed the project',
  disable: 'disabled the project',
  enable: 'enabled the project',
  limit: 'set the rate limit',
  delete: 'began to delete the project',
  add_webhook: 'added a webhook',
  remove_webhook: 'removed a webhook',
  rotate_webhook: 'rotated a webhook’s secret',
  replay_webhook: 'replayed a webhook',
  enable_webhook: 'enabled a webhook',
  test_webhook: 'tested a webhook',
  pause_webhook: 'paused a webhook',
  resume_webhook: 'resumed a webhook',
  update_webhook: 'changed a webhook',
  resend_webhook: 'resent a message',
  update: 'changed a user',
  link: 'linked an identity',
  unlink: 'unlinked an identity or account',
  merge: 'merged two users',
};
export const AUDIT_ACTIONS = Object.keys(AUDIT_WORDS) as readonly AuditAction[];

/** Conditions as a caller writes them. */
export type AuditQuestion = { readonly [Name in keyof AuditFilter]?: string | null | undefined };

/** An entry with the keys of `userdir audit --json`. */
export function entryJson({ id, at, actor, requestId, action, userId: user_id, details }: AuditEntry) {
  return { id, at, actor, request_id: requestId, action, user_id, details };
}

export function noProject(appId: string): AppError {
  return new AppError('NOT_FOUND', `There is no project with the App ID ${show(appId)}.`);
}
