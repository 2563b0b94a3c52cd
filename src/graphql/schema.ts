import { defaultFieldResolver, type GraphQLObjectType, printSchema } from 'graphql';
import { isSliceOver, nextSlice } from '../http/event-loop.js';
import { withSpan } from '../telemetry/request-trace.js';
import { builder, type GraphQLContext } from './builder.js';
import { introspectAs, printSubgraph, withoutFederation } from './federation.js';
import './users.js';
import './bans.js';
import './changes.js';
import './logins.js';
import './user-lists.js';
import './users.js';
import './wallets.js';

export const schema = builder.toSchema();
/** What introspection and `schema.graphql` show of it. */
export const shownSchema = withoutFederation(schema);
introspectAs(schema, shownSchema);
for (const type of [schema.getQueryType(), schema.getMutationType()]) traceFields(type as GraphQLObjectType);
for (const type of [schema.getQueryType(), schema.getSubscriptionType()])
  sliceFields(type as GraphQLObjectType<unknown, GraphQLContext>);

/** Makes each resolver of a type a step of the request's trace (telemetry/request-trace.ts). */
function traceFields(type: GraphQLObjectType): void {
  for (const field of Object.values(type.getFields())) {
    const { resolve = defaultFieldResolver } = field;
    const step = { kind: 'resolver', name: `${type.name}.${field.name}` } as const;
    field.resolve = (...parameters) => withSpan(step, () => resolve(...parameters));
  }
}

/**
 * Spreads the root fields of a query, and the events of subscriptions, over several turns of the event loop, because together they may
 * have thousands of rows. The fields of a large query also start in several turns. Those of a smaller one start together, so that
 * their reads share statements.
 */
function sliceFields(type: GraphQLObjectType<unknown, GraphQLContext>): void {
  for (const field of Object.values(type.getFields())) {
    const { resolve = defaultFieldResolver } = field;
    field.resolve = (...parameters) => {
      const { isLarge, scope } = parameters[2];
      const inSlice = (value: unknown) => (isSliceOver() ? nextSlice(scope.appId).then(() => value) : value);
      if (isLarge && isSliceOver()) return nextSlice(scope.appId).then(() => resolve(...parameters));
      const answer = resolve(...parameters);
      return answer instanceof Promise ? answer.then(inSlice) : answer;
    };
  }
}

/** The text of `schema.graphql`. It is sorted, so that its diff shows only real changes. */
export function printedSchema(): string {
  return `${printSchema(shownSchema)}\n`;
}

/** The text of `subgraph.graphql`, from which a supergraph is composed. */
export function printedSubgraph(): string {
  return `${printSubgraph(schema)}\n`;
}
