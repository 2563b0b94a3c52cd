import { defaultFieldResolver, type GraphQLObjectType } from 'graphql';
import type { GraphQLContext } from './builder.js';
import { FIELD_COSTS, rowCostOf } from './cost.js';
import { schema } from './schema.js';

/**
 * Lists whose length cannot be told beforehand: users who share an email, accounts of a user. Their operation is charged
 * for an estimate before it begins, and for every row beyond it as soon as the rows are there, before they are answered.
 */
export function chargeForRows(): void {
  for (const [coordinate, { rows }] of Object.entries(FIELD_COSTS)) {
    // Introspection reads the schema, whose size does not depend on anybody.
    if (typeof rows === 'number' && !coordinate.startsWith('__')) chargeForRowsOf(coordinate);
  }
}

function chargeForRowsOf(coordinate: string): void {
  const [typeName, fieldName] = coordinate.split('.') as [string, string];
  const field = (schema.getType(typeName) as GraphQLObjectType<unknown, GraphQLContext>).getFields()[fieldName];
  if (field === undefined) throw new Error(`There is no field ${coordinate}.`);
  const { resolve = defaultFieldResolver } = field;
  field.resolve = (parent, args, context, info) => {
    const charged = (list: unknown): unknown => {
      let cost = 0;
      for (const node of info.fieldNodes) {
        const each = rowCostOf(node);
        if (each !== undefined) cost += ((list as unknown[]).length - each.rows) * each.perRow;
      }
      // The answer will not be given, so nothing of it needs to be made.
      return cost > 0 && !context.charge(cost) ? [] : list;
    };
    const list = resolve(parent, args, context, info);
    return list instanceof Promise ? list.then(charged) : charged(list);
  };
}
