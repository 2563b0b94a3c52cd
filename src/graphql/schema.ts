import { defaultFieldResolver, type GraphQLObjectType, lexicographicSortSchema, printSchema } from 'graphql';
import { observed } from '../observation.js';
import { builder } from './builder.js';
import './accounts.js';
import './logins.js';
import './users.js';
import './wallets.js';

export const schema = builder.toSchema();
for (const type of [schema.getQueryType(), schema.getMutationType()]) observeFields(type as GraphQLObjectType);

/** Makes the resolvers of a type parts of what is observed of a request (src/observation.ts). */
function observeFields(type: GraphQLObjectType): void {
  for (const field of Object.values(type.getFields())) {
    const { resolve = defaultFieldResolver } = field;
    const part = { kind: 'resolver', name: `${type.name}.${field.name}` } as const;
    field.resolve = (...parameters) => observed(part, () => resolve(...parameters));
  }
}

/** The schema as `schema.graphql` has it: sorted, so that a change shows as one. */
export function printedSchema(): string {
  return `${printSchema(lexicographicSortSchema(schema))}\n`;
}
