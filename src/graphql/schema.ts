import { printSchema } from 'graphql';
import { builder } from './builder.js';
import { printSubgraph, withoutFederation } from './federation.js';
import './users.js';
import './bans.js';
import './caller.js';
import './changes.js';
import './identities.js';
import './logins.js';
import './many-users.js';
import './user-lists.js';
import './wallets.js';
import './webhooks.js';

export const schema = builder.toSchema();
/** The schema of introspection and `schema.graphql`, from which code is generated. Generators refuse the scalars of federation. */
export const shownSchema = withoutFederation(schema);

/** The text of `schema.graphql`. It is sorted, so that its diff shows only real changes. */
export function printedSchema(): string {
  return `${printSchema(shownSchema)}\n`;
}

/** The text of `subgraph.graphql`, from which a supergraph is composed. */
export function printedSubgraph(): string {
  return `${printSubgraph(schema)}\n`;
}
