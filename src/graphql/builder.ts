import SchemaBuilder from '@pothos/core';
import DirectivesPlugin from '@pothos/plugin-directives';
import PrismaPlugin from '@pothos/plugin-prisma';
import { valueFromASTUntyped } from 'graphql';
import type { Services } from '../context.js';
import { getDatamodel, type default as PrismaTypes } from '../db/generated/pothos.js';
import type { Admit } from '../domain/changes.js';
import { KEY_KEPT_HOURS } from '../domain/parse.js';
import type { ProjectScope } from '../domain/projects.js';
import type { Account, User, UserIdentity } from '../domain/users.js';
import type { EngineContext, Outcome } from '../engine/cost.js';
import { wrapForEngine } from '../engine/execution.js';
import { type Resolver, type WrapResolver, wrapResolvers } from '../engine/wrap-resolvers.js';
import type { AppError } from '../errors.js';
import { addEnums } from './shared.js';

/** The sender of a request, who hears of it while it is executed. */
export interface Requester {
  /** Of the request; null for a command. */
  readonly id: string | null;
  readonly scope: ProjectScope;
  /** Until when what it writes has an answer, by the clock of `performance`. */
  readonly until: number;
  /** Adds units of work (http/admission.ts) that turned out to be needed. Throws where no client waits for the answer any more. */
  addWeight(units: number): void;
  /** Is told of an error of a resolver as an operator should know of it. */
  readonly report: (failure: AppError) => void;
}

/** The context of a resolver: the project of the request's credentials, the services, and the request's id for the audit trail. */
export interface GraphQLContext extends EngineContext {
  readonly scope: ProjectScope;
  readonly services: Services;
  /** Null for a command. */
  readonly requestId: string | null;
  /** Until when what it writes has an answer, by the clock of `performance`. */
  readonly until: number;
  readonly again: (outcome?: Outcome) => GraphQLContext;
  /** The life of a subscription, and its reads. Null for any other operation. */
  readonly follower: Follower | null;
  /** Stands around each root field that an operator asks for (dashboard/caller.ts). Null for a caller with an App Secret. */
  readonly guard: Guard | null;
}

/** Runs a root field with the rights that its caller has by then. */
export type Guard = (field: RootField, resolve: (now: GraphQLContext) => unknown) => unknown;

export interface RootField {
  readonly name: string;
  readonly isChange: boolean;
}

/** The stream of a subscription. */
export interface Follower {
  readonly signal: AbortSignal;
  readonly admit: Admit;
  /** Tells the client a cursor at the next heartbeat, unless an event comes before it. */
  tellLater(cursor: string): void;
}

const wrapForCallers: WrapResolver = (resolve, field) => wrapForEngine(guarded(resolve, field), field);

function guarded(resolve: Resolver, { parentType, name }: Parameters<WrapResolver>[1]): Resolver {
  if (parentType !== 'Query' && parentType !== 'Mutation') return resolve;
  const field: RootField = { name, isChange: parentType === 'Mutation' };
  return (root, args, context: GraphQLContext, info) =>
    context.guard === null
      ? resolve(root, args, context, info)
      : context.guard(field, (now) => resolve(root, args, now, info));
}

/** The models with the rows that services return: what is public of them. */
type Models = Omit<PrismaTypes, 'User' | 'Account' | 'Identity'> & {
  User: Omit<PrismaTypes['User'], 'Shape'> & { Shape: User };
  Account: Omit<PrismaTypes['Account'], 'Shape'> & { Shape: Account };
  Identity: Omit<PrismaTypes['Identity'], 'Shape'> & { Shape: UserIdentity };
};

export const builder = new SchemaBuilder<{
  Context: GraphQLContext;
  PrismaTypes: Models;
  DefaultFieldNullability: false;
  /** The directives of Apollo Federation. They stand in subgraph.graphql only. */
  Directives: {
    key: { locations: 'OBJECT'; args: { fields: string } };
    shareable: { locations: 'OBJECT' };
  };
  Scalars: {
    ID: { Input: string; Output: string | number };
    DateTime: { Input: never; Output: string };
    JSON: { Input: unknown; Output: object };
    /** See federation.ts. */
    _Any: { Input: unknown; Output: never };
  };
}>({
  defaultFieldNullability: false,
  plugins: [wrapResolvers, PrismaPlugin, DirectivesPlugin],
  wrapResolver: wrapForCallers,
  prisma: {
    dmmf: getDatamodel(),
    // Resolvers ask services, which batch and keep to the project; a field that wants its own query is a mistake.
    client: (): never => {
      throw new Error('A resolver may not query the database; ask a service.');
    },
  },
});

builder.queryType({
  description:
    'Every field reads the project whose App ID and App Secret come with the request, and nothing else. A failed field has a code in `extensions.code`: `BAD_USER_INPUT` for a value that is not accepted, `NOT_FOUND` and `CONFLICT`, each with the argument in `extensions.argument`, and `extensions.userId` where another user has what was given, `BANNED`, `IDEMPOTENCY_KEY_REUSED`, `CURSOR_EXPIRED`, `FORBIDDEN` where the App Secret lacks a scope, `UNAVAILABLE` while the database is away, or `INTERNAL_SERVER_ERROR`. `extensions.docs` is the address of what the code means.',
});
builder.mutationType({
  description:
    'Every field changes the project whose App ID and App Secret come with the request, and nothing else. The App Secret needs the scope `write`. An argument that the document has, with a variable that has no value, is refused; null is as absent where a field does not say more.',
});

builder.scalarType('DateTime', {
  description: 'An instant as an RFC 3339 string, always in UTC and with milliseconds: `2026-01-31T12:00:00.000Z`.',
  serialize: (instant) => instant,
});

builder.scalarType('JSON', {
  description: 'A JSON object.',
  serialize: (value) => value,
  parseValue: (value) => value,
  parseLiteral: (node, variables) => valueFromASTUntyped(node, variables),
});

export const { loginMethodEnum, networkEnum, walletTypeEnum, changeTypeEnum, secretScopeEnum } = addEnums(builder);

/** Costs of fields beyond the 1 that each costs. */
export const SURCHARGES = {
  /** An index is searched. */
  search: 10,
  /** The beginning of a text is searched in an index for each way to find a user: up to METHODS_BY_PREFIX methods, and two columns. */
  prefix: 150,
  /** A row is written, in a transaction of its own. */
  write: 100,
  /** One of several users is changed, in one transaction. */
  change: 20,
  /** An exact total is read. */
  total: 200,
  /** Users are looked at one by one, up to a limit. */
  scan: 500,
  /** One of many users is looked up. */
  id: 8,
  /** One of many addresses is parsed and written. */
  account: 1,
  /** The text of the whole schema is answered. */
  sdl: 100,
  /** One of many addresses is parsed and looked up. */
  wallet: 2,
} as const;

/** Of the argument by which a mutation can be retried. */
export const KEY_DESCRIPTION = `A key of your choice for this request. A retry with the same key within ${KEY_KEPT_HOURS} hours changes nothing and is answered as the first was, but with the user as they are by then, also if they were removed or restored since: make it at random, never from the user ID. Another request of the project with the same key, also over REST, fails with \`IDEMPOTENCY_KEY_REUSED\`.`;
