import { lexicographicSortSchema, printSchema } from 'graphql';
import { builder } from './builder.js';
import './accounts.js';
import './logins.js';
import './users.js';
import './wallets.js';

export const schema = builder.toSchema();

/** The schema as `schema.graphql` has it: sorted, so that a change shows as one. */
export function printedSchema(): string {
  return `${printSchema(lexicographicSortSchema(schema))}\n`;
}
