import SchemaBuilder, { BasePlugin, type PothosOutputFieldConfig, type SchemaTypes } from '@pothos/core';
import type { GraphQLFieldResolver } from 'graphql';

/* One place where a schema wraps its resolvers. */

/** Gives a field another resolver around its own, or its own one. */
// biome-ignore lint/suspicious/noExplicitAny: resolvers of all schemas.
export type Resolver = GraphQLFieldResolver<any, any>;
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
