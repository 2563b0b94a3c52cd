import SchemaBuilder from '@pothos/core';
import type { Services } from '../context.js';
import type { Finding } from '../domain/findings.js';
import { ROLE_MEANINGS } from '../domain/operator-roles.js';
import type { ActiveSession, Operator } from '../domain/operators.js';
import { requireNoNul } from '../domain/parse.js';
import type { Site } from '../domain/passkeys.js';
import type { ProjectScope } from '../domain/projects.js';
import { type WrapResolver, wrapResolvers } from '../engine/wrap-resolvers.js';
import { AppError } from '../errors.js';
import type { RootField } from '../graphql/builder.js';
import { addEnums, required, valuesOf } from '../graphql/shared.js';

/** What a resolver gets: the operator who asks, and the services. */
export interface DashboardContext {
  /** Null where a command asks, which has no session. */
  readonly browser: Browser | null;
  readonly operator: Operator;
  readonly services: Services;
  /** The id of the request for the logs and trails; null for a command. */
  readonly requestId: string | null;
  /** Until when what is written has an answer, by the clock of `performance`. */
  readonly until: number;
  /** Where browsers reach the dashboard; null where there is none. */
  readonly dashboardUrl: string | null;
  /** Null where no server runs. */
  readonly status: StatusSource | null;
  /** The operator's right to act on a project, found once for a request. NOT_FOUND. */
  readonly scopeOf: (appId: string) => Promise<ProjectScope>;
  /** The same with the session and the role as they are now: for an effect, before which time has passed. UNAUTHENTICATED. */
  readonly renew: () => Promise<DashboardContext>;
  /** Is told of an error that the people who run the service should know of. */
  readonly report: (failure: AppError) => void;
  /** Counts a change, or what is refused, before it is recorded. RATE_LIMITED. */
  readonly count: Readonly<Record<'change' | 'refusal', () => Promise<void>>>;
}

/** A browser in which an operator is signed in. */
export interface Browser {
  readonly session: ActiveSession;
  /** Where passkeys work; null if nowhere. Few operations ask. */
  readonly passkeySite: () => Site | null;
  /** Ends the session in the browser too. */
  readonly forgetSession: () => void;
}

/** The browser of a field that is of use to one only. CONFLICT. */
export function browserOf({ browser }: DashboardContext): Browser {
  if (browser !== null) return browser;
  throw new AppError('CONFLICT', 'Only an operator who is signed in to the dashboard in a browser can ask for this.');
}

/** The scopes of a request, each found once. */
export function createScopes({ projects }: Services, operator: Operator): DashboardContext['scopeOf'] {
  const scopes = new Map<string, Promise<ProjectScope>>();
  return (appId) => {
    const known = scopes.get(appId) ?? projects.getScope(appId, operator);
    scopes.set(appId, known);
    return known;
  };
}

/** What the page "Status" shows. */
export interface StatusSource {
  readonly checks: () => Promise<readonly Finding[]>;
  /** The same as it is now, with what is not checked, and after counting users if `totals`. */
  readonly examine: (totals: boolean) => Promise<readonly Finding[]>;
  readonly database: string;
  /** RATE_LIMIT; null for no limit. */
  readonly requestsPerMinute: number | null;
  readonly startedAt: string;
}

type Resolver = ReturnType<WrapResolver>;

/** Checks the arguments of a field. What an operator is refused is recorded: in the audit trail of the project, or in the log of operators. */
function guarded(resolve: Resolver, { parentType, name, args }: Parameters<WrapResolver>[1]): Resolver {
  const isRoot = parentType === 'Query' || parentType === 'Mutation';
  if (!isRoot && Object.keys(args).length === 0) return resolve;
  return async (root, given, context: DashboardContext, info) => {
    // PostgreSQL has no text with the character U+0000. Here and not in each field, so that none forgets it.
    requireNoNul('arguments', given);
    if (!isRoot) return resolve(root, given, context, info);
    const field = { name, isChange: parentType === 'Mutation', appId: given.appId };
    return withRightsOfNow(context, field, (now) => resolve(root, given, now, info));
  };
}

/** A root field that an operator asks for, and its project if it is of one. */
interface AskedField extends RootField {
  readonly appId: unknown;
}

/**
 * Runs a root field. A document may have many changes, and take long: before each it is read again what the operator may do. What is refused is
 * recorded.
 */
export async function withRightsOfNow<Result>(
  context: DashboardContext,
  { name, isChange, appId }: AskedField,
  run: (now: DashboardContext) => Result | Promise<Result>,
): Promise<Result> {
  const now = isChange ? await context.renew() : context;
  if (isChange) await now.count.change();
  try {
    return await run(now);
  } catch (error) {
    if (error instanceof AppError && error.code === 'FORBIDDEN') await recordRefusal(now, name, appId);
    throw error;
  }
}

async function recordRefusal(
  { services, operator, requestId, scopeOf, count }: DashboardContext,
  refused: string,
  appId: unknown,
): Promise<void> {
  await count.refusal();
  if (typeof appId === 'string') await services.audit.recordRefusal(await scopeOf(appId), requestId, refused);
  else await services.operators.recordRefusal(operator, requestId, refused);
}

/**
 * The schema of the operators. Resolvers ask services, by a ProjectScope with the operator's role: what a role does not allow is
 * refused there.
 */
export const builder = new SchemaBuilder<{
  Context: DashboardContext;
  DefaultFieldNullability: false;
  Scalars: {
    ID: { Input: string; Output: string | number };
    DateTime: { Input: string; Output: string };
    Date: { Input: string; Output: string };
    JSON: { Input: unknown; Output: object };
  };
}>({
  defaultFieldNullability: false,
  plugins: [wrapResolvers],
  // Asked of every builder by the types of a plugin that only the public schema has.
  prisma: undefined as never,
  wrapResolver: guarded,
});

builder.queryType({
  description: 'What an operator reads. Every field says the role that it needs; without a word, any.',
});
builder.mutationType({
  description: 'What an operator changes. Every field says the role that it needs, and is recorded.',
});

/** Services make and read such texts. */
const asText = { serialize: (text: string) => text, parseValue: (text: unknown) => text as string };
builder.scalarType('DateTime', {
  description: 'An instant as an RFC 3339 string, in UTC and with milliseconds: `2026-01-31T12:00:00.000Z`.',
  ...asText,
});
builder.scalarType('JSON', { description: 'A JSON object.', serialize: (value) => value });
builder.scalarType('Date', { description: 'A day in UTC: `2026-01-31`.', ...asText });

export const roleEnum = builder.enumType('OperatorRole', {
  description: 'What an operator may do.',
  values: valuesOf(ROLE_MEANINGS),
});

export const { loginMethodEnum, networkEnum, walletTypeEnum, changeTypeEnum, secretScopeEnum } = addEnums(builder);

/** The cost of a field that may read all rows of a project or look at the whole database: a document of a page may have one. */
export const WHOLE_COST = 10_000;

export const APP_ID = required('The App ID of the project.');
