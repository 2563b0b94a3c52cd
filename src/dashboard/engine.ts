import { type GraphQLField, getNamedType, getNullableType, isLeafType, isListType } from 'graphql';
import { MAX_ROWS } from '../domain/bounds.js';
import { declaredCost, type FieldCost } from '../engine/cost.js';
import { createEngine } from '../engine/engine.js';
import { LIMITS } from '../engine/limits.js';
import { DEFAULT_PAGE } from './paging.js';
import { schema } from './schema.js';

/* What runs the documents of the pages, and their limits. */

/** The costliest page has two thirds of it. */
export const engine = createEngine(schema, { limits: { ...LIMITS, cost: 15_000 }, costOf });

/** What is read for itself costs as much as so many values. */
const READ_COST = 50;
/** What a page has read already. */
const PARTS_OF_PAGE: readonly string[] = ['nodes', 'pageInfo'];
/** A list that belongs to something has about so many items. */
const USUAL_LENGTH = 4;
const LENGTHS = ['first', 'ids'];

/**
 * What a field costs by its form: one that has arguments or fields of its own is taken for a read, and a list or a page multiplies what is
 * below it. Only a field that may read far more declares what that costs.
 */
function costOf({ name, args, type, extensions }: GraphQLField<unknown, unknown>): FieldCost {
  if (name.startsWith('__') || PARTS_OF_PAGE.includes(name)) return {};
  if (args.length === 0 && isLeafType(getNamedType(type))) return {};
  const { surcharge = READ_COST } = declaredCost({ extensions });
  const of = LENGTHS.filter((length) => args.some((arg) => arg.name === length));
  if (of.length > 0) return { surcharge, rows: { of, otherwise: DEFAULT_PAGE, atMost: MAX_ROWS } };
  const length = args.length === 0 ? USUAL_LENGTH : MAX_ROWS;
  const rows = isListType(getNullableType(type)) && { rows: { otherwise: length, atMost: length } };
  return { surcharge, ...rows };
}
