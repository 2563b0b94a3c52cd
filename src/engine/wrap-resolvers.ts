import SchemaBuilder, { BasePlugin, type PothosOutputFieldConfig, type SchemaTypes } from '@pothos/core';
import type { GraphQLFieldResolver } from 'graphql';
import { isSliceOver, nextSlice } from '../http/threads.js';
import { withSpan } from '../telemetry/request-trace.js';
import { chargingForRows, declaredCost, type EngineContext } from './cost.js';

/** Gives a field another resolver around its own, or its own one. */
// biome-ignore lint/suspicious/noExplicitAny: resolvers of all schemas.
type Resolver = GraphQLFieldResolver<any, any>;
export type WrapResolver = (resolve: Resolver, field: PothosOutputFieldConfig<SchemaTypes>) => Resolver;

declare global {
  export namespace PothosSchemaTypes {
    export interface Plugins<Types extends SchemaTypes> {
      wrapResolvers: WrapResolvers<Types>;
    }
    export interface SchemaBuilderOptions<Types extends SchemaTypes> {
      /** Is asked for each field when the schema is built. */
      wrapResolver?: WrapResolver;
    }
  }
}

/** A plugin of Pothos: one place where a schema wraps its resolvers. */
class WrapResolvers<Types extends SchemaTypes> extends BasePlugin<Types> {
  override wrapResolve(resolve: Resolver, field: PothosOutputFieldConfig<Types>): Resolver {
    return this.builder.options.wrapResolver?.(resolve, field as never) ?? resolve;
  }
}

export const wrapResolvers = 'wrapResolvers' as const;
SchemaBuilder.registerPlugin(wrapResolvers, WrapResolvers);

/**
 * Charges for lists, makes each root field a step of the request's trace (telemetry/request-trace.ts), and spreads root fields and the
 * events of subscriptions over turns of the event loop.
 */
export const wrapForEngine: WrapResolver = (resolve, field) => {
  const { parentType, name, type } = field;
  const charging =
    type.kind === 'List' && declaredCost({ extensions: field.extensions ?? {} }).rows
      ? chargingForRows(resolve)
      : resolve;
  if (!['Query', 'Mutation', 'Subscription'].includes(parentType)) return charging;
  const step = { kind: 'resolver', name: `${parentType}.${name}` } as const;
  const traced: Resolver =
    parentType === 'Subscription' ? charging : (...given) => withSpan(step, () => charging(...given));
  return parentType === 'Mutation' ? traced : inSlices(traced);
};

/**
 * Together, the root fields of a query may have thousands of rows. The fields of a large query also start in several turns. Those of a
 * smaller one start together, so that their reads share statements.
 */
function inSlices(resolve: Resolver): Resolver {
  return (...given) => {
    const { isLarge: isSlow, project } = given[2] as EngineContext;
    const inSlice = (value: unknown) => (isSliceOver() ? nextSlice(project).then(() => value) : value);
    if (isSlow && isSliceOver()) return nextSlice(project).then(() => resolve(...given));
    const answer = resolve(...given);
    return answer instanceof Promise ? answer.then(inSlice) : answer;
  };
}
