import { defaultFieldResolver, type GraphQLObjectType, lexicographicSortSchema, printSchema } from 'graphql';
import { isSliceOver, nextSlice } from '../http/event-loop.js';
import { observed } from '../telemetry/request-trace.js';
import { builder, type GraphQLContext } from './builder.js';
import './accounts.js';
import './logins.js';
import './users.js';
import './wallets.js';

export const schema = builder.toSchema();
for (const type of [schema.getQueryType(), schema.getMutationType()]) observeFields(type as GraphQLObjectType);
sliceFields(schema.getQueryType() as GraphQLObjectType<unknown, GraphQLContext>);

/** Makes the resolvers of a type parts of what is observed of a request (src/observation.ts). */
function observeFields(type: GraphQLObjectType): void {
  for (const field of Object.values(type.getFields())) {
    const { resolve = defaultFieldResolver } = field;
    const part = { kind: 'resolver', name: `${type.name}.${field.name}` } as const;
    field.resolve = (...parameters) => observed(part, () => resolve(...parameters));
  }
}

/**
 * Lets the fields of a query take turns of the event loop that have time left: together they may be thousands of rows. Those of
 * a large query also begin in several turns; those of others begin together, so that their reads share statements.
 */
function sliceFields(type: GraphQLObjectType<unknown, GraphQLContext>): void {
  const inSlice = (value: unknown) => (isSliceOver() ? nextSlice().then(() => value) : value);
  for (const field of Object.values(type.getFields())) {
    const { resolve = defaultFieldResolver } = field;
    field.resolve = (...parameters) => {
      if (parameters[2].isLarge && isSliceOver()) return nextSlice().then(() => resolve(...parameters));
      const answer = resolve(...parameters);
      return answer instanceof Promise ? answer.then(inSlice) : answer;
    };
  }
}

/** The schema as `schema.graphql` has it: sorted, so that a change shows as one. */
export function printedSchema(): string {
  return `${printSchema(lexicographicSortSchema(schema))}\n`;
}
