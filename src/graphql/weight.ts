import type { PreparedRequest } from './execution.js';
import { COST_PER_UNIT } from './field-cost.js';
import { LIMITS } from './limits.js';

/** The weight of GraphQL requests in units of admission (http/admission.ts). A unit is about the work of one user. */

/** One unit in characters of a document to parse and validate. */
const CHARACTERS_PER_UNIT = 500;

/** The weight of reading a document for the first time. */
export function weightOfReading(text: string): number {
  return 1 + Math.floor(Math.min(text.length, LIMITS.characters) / CHARACTERS_PER_UNIT);
}

/** The weight of executing a request that was read. A refusal takes little. */
export function weightOfRequest({ refusal, cost }: Pick<PreparedRequest, 'refusal' | 'cost'>): number {
  return refusal === null ? weightOfCost(cost) : 1;
}

/** The weight of an operation of this cost. */
export function weightOfCost(cost: number): number {
  return 1 + unitsOfCost(cost);
}

/** The whole units of a cost. */
export function unitsOfCost(cost: number): number {
  return Math.floor(cost / COST_PER_UNIT);
}
