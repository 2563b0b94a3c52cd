import SchemaBuilder from '@pothos/core';
import DirectivesPlugin from '@pothos/plugin-directives';
import PrismaPlugin from '@pothos/plugin-prisma';
import type { Services } from '../context.js';
import type PrismaTypes from '../db/generated/pothos.js';
import { getDatamodel } from '../db/generated/pothos.js';
import type { ProjectScope } from '../domain/projects.js';
import type { Account, User } from '../domain/users.js';
import type { AppError } from '../errors.js';
import type { Admit } from '../feed/changes.js';
import { addEnums } from './enums.js';

/** What a resolver gets: the project of the request's credentials, the services, and the request's id for the audit trail. */
export interface GraphQLContext {
  readonly scope: ProjectScope;
  readonly services: Services;
  readonly requestId: string;
  /** Whether it may take long: its fields begin in several turns of the event loop then. */
  readonly isLarge: boolean;
  /** Adds to the cost of the operation (rows.ts); false where it cannot be answered for that. */
  readonly charge: (cost: number) => boolean;
  /** The context of a second execution for the same answer: it is charged only for what it costs beyond the first. */
  readonly again: () => GraphQLContext;
  /** How long a subscription goes on, and how it reads. Null for any other operation. */
  readonly follower: { readonly signal: AbortSignal; readonly admit: Admit } | null;
  /** Is told of an error of a resolver as an operator should know of it. */
  readonly report: (failure: AppError) => void;
}

/** The models with the rows that services return: what is public of them. */
type Models = Omit<PrismaTypes, 'User' | 'Account'> & {
  User: Omit<PrismaTypes['User'], 'Shape'> & { Shape: User };
  Account: Omit<PrismaTypes['Account'], 'Shape'> & { Shape: Account };
};

export const builder = new SchemaBuilder<{
  Context: GraphQLContext;
  PrismaTypes: Models;
  DefaultFieldNullability: false;
  /** Those of Apollo Federation. They stand in subgraph.graphql only. */
  Directives: {
    key: { locations: 'OBJECT'; args: { fields: string } };
    shareable: { locations: 'OBJECT' };
  };
  Scalars: {
    ID: { Input: string; Output: string | number };
    DateTime: { Input: never; Output: string };
    /** See federation.ts. */
    _Any: { Input: unknown; Output: never };
  };
}>({
  defaultFieldNullability: false,
  plugins: [PrismaPlugin, DirectivesPlugin],
  prisma: {
    dmmf: getDatamodel(),
    // Resolvers ask services, which batch and keep to the project; a field that wants its own query is a mistake.
    client: () => {
      throw new Error('A resolver may not query the database; ask a service.');
    },
  },
});

builder.queryType({
  description:
    'Every field reads the project whose App ID and App Secret come with the request, and nothing else. A failed field has a code in `extensions.code`: `BAD_USER_INPUT` for a value that is not accepted, with the argument in `extensions.argument`, `NOT_FOUND`, `BANNED`, `CONFLICT`, `IDEMPOTENCY_KEY_REUSED`, `CURSOR_EXPIRED`, `FORBIDDEN` where the App Secret lacks a scope, `UNAVAILABLE` while the database is away, or `INTERNAL_SERVER_ERROR`.',
});
builder.mutationType({
  description:
    'Every field changes the project whose App ID and App Secret come with the request, and nothing else. The App Secret needs the scope `write`.',
});

builder.scalarType('DateTime', {
  description: 'An instant as an RFC 3339 string, always in UTC and with milliseconds: `2026-01-31T12:00:00.000Z`.',
  serialize: (instant) => instant,
});

export const { loginMethodEnum, networkEnum, walletTypeEnum, changeTypeEnum } = addEnums(builder);
