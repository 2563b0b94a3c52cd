import { defaultFieldResolver, type GraphQLField, isObjectType } from 'graphql';
import type { GraphQLContext } from './builder.js';
import { rowCostOf } from './cost.js';
import { costOf } from './field-cost.js';
import { schema } from './schema.js';

/**
 * Charges for lists whose length is not known beforehand: users who share an email, accounts of a user. The operation
 * pays an estimate before it starts. Each row beyond the estimate is charged as soon as it is read, before it is
 * answered.
 */
export function chargeForRows(): void {
  for (const type of Object.values(schema.getTypeMap())) {
    if (!isObjectType(type)) continue;
    for (const field of Object.values(type.getFields())) {
      if (typeof costOf(field).rows === 'number') chargeForRowsOf(field);
    }
  }
}

function chargeForRowsOf(field: GraphQLField<unknown, GraphQLContext>): void {
  const { resolve = defaultFieldResolver } = field;
  field.resolve = (parent, args, context, info) => {
    const charged = (list: unknown): unknown => {
      let cost = 0;
      for (const node of info.fieldNodes) {
        const each = rowCostOf(node);
        if (each !== undefined) cost += ((list as unknown[]).length - each.rows) * each.perRow;
      }
      // The operation is refused, so the fields of this list need not be resolved.
      return cost > 0 && !context.charge(cost) ? [] : list;
    };
    const list = resolve(parent, args, context, info);
    return list instanceof Promise ? list.then(charged) : charged(list);
  };
}
