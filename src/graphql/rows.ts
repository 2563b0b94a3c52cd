import { defaultFieldResolver, type GraphQLField, getNullableType, isListType, isObjectType } from 'graphql';
import type { GraphQLContext } from './builder.js';
import { rowCostOf } from './cost.js';
import { costOf } from './field-cost.js';
import { schema } from './schema.js';

/**
 * Charges for the lists that declare their rows: users who share an email, accounts of a user, users by their ids. The operation pays
 * for some rows before it starts: those that its arguments ask for, or an estimate. Each row beyond that is charged as soon as it is
 * read, before it is answered.
 */
export function chargeForRows(): void {
  for (const type of Object.values(schema.getTypeMap())) {
    if (!isObjectType(type)) continue;
    for (const field of Object.values(type.getFields())) {
      if (costOf(field).rows !== undefined && isListType(getNullableType(field.type))) chargeForRowsOf(field);
    }
  }
}

/** Makes a field charge for its rows. */
export function chargeForRowsOf(field: GraphQLField<unknown, GraphQLContext>): void {
  const { resolve = defaultFieldResolver } = field;
  field.resolve = (parent, args, context, info) => {
    const charged = (list: unknown): unknown => {
      const found = countRows(list);
      let cost = 0;
      for (const node of info.fieldNodes) {
        const paid = rowCostOf(node);
        if (paid === undefined) continue;
        const rows = typeof paid.rows === 'number' ? paid.rows : paid.rows(info.variableValues);
        cost += (found - rows) * paid.perRow;
      }
      // The operation is refused, so the fields of this list need not be resolved.
      return cost > 0 && !context.charge(cost) ? [] : list;
    };
    const list = resolve(parent, args, context, info);
    return list instanceof Promise ? list.then(charged) : charged(list);
  };
}

/** The rows of a list, or of the lists in it. */
function countRows(list: unknown): number {
  if (!Array.isArray(list)) return 0;
  return Array.isArray(list[0]) ? list.reduce<number>((rows, item) => rows + countRows(item), 0) : list.length;
}
