import type { GraphQLField } from 'graphql';
import { MAX_ACCOUNTS } from '../domain/identities.js';

/** What a field costs beyond the 1 that every field costs. The field declares it in its `extensions`. */
export interface FieldCost {
  /** The cost of the field's own work in the database, without its rows and without the fields below it. */
  readonly surcharge?: number;
  /** The number of rows of the field's own list, or of the lists below it that do not declare it themselves. */
  readonly rows?: Rows;
  /** Fields of an input object that is an argument: what it costs if any of them is given. */
  readonly options?: {
    readonly of: readonly [argument: string, fields: readonly string[]];
    readonly surcharge: number;
  };
  /** A list in the arguments: where it is, and what each of its items costs. */
  readonly items?: { readonly of: readonly [argument: string, field?: string]; readonly each: number };
}

/** How many rows a list has. */
export interface Rows {
  /** The arguments of which the first that is given says it: the number, or a list with an item a row. */
  readonly of?: readonly string[];
  /** An estimate where no argument says it. Rows beyond it are charged when they are read (rows.ts). */
  readonly otherwise: number;
  /** There are never more. */
  readonly atMost: number;
}

/** The cost of one unit of admission (weight.ts). */
export const COST_PER_UNIT = 50;

export const SURCHARGES = {
  /** An index is searched. */
  search: 10,
  /** A row is written, in a transaction of its own. */
  write: 100,
  /** An exact total is read. */
  total: 200,
  /** Users are looked at one by one, up to a limit. */
  scan: 500,
  /** One of many users is looked up. */
  id: 8,
  /** One of many addresses is parsed and written. */
  account: 1,
  /** The text of the whole schema is answered. */
  sdl: 100,
  /** One of many addresses is parsed and looked up. */
  wallet: 2,
  /** A verdict is signed. */
  receipt: 12,
} as const;

/** Most users have few accounts. */
export const ACCOUNTS_PER_USER: Rows = { otherwise: 3, atMost: MAX_ACCOUNTS };
/** An email or an address nearly always belongs to one user. */
export const USERS_PER_SEARCH: Rows = { otherwise: 3, atMost: Number.POSITIVE_INFINITY };

/** The `extensions` of a field that costs more than 1. */
export function costs(cost: FieldCost): { readonly cost: FieldCost } {
  return { cost };
}

/** The cost that a field declares; empty for a field that costs 1. */
export function costOf({ extensions }: Pick<GraphQLField<unknown, unknown>, 'extensions'>): FieldCost {
  return (extensions['cost'] as FieldCost | undefined) ?? {};
}
