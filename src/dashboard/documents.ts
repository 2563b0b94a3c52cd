import type { initGraphQLTada, TadaDocumentNode } from 'gql.tada';
import type { introspection } from '#dist/dashboard/introspection.js';

/* Documents of the operators' schema, of pages and of commands. The build checks them (dashboard/pages/operation-types.js). */

type Tada = initGraphQLTada<{
  introspection: introspection;
  disableMasking: true;
  scalars: { DateTime: string; Date: string; ID: string; JSON: object };
}>;

/** An operation of the operators' schema, with the types of its variables and its answer. At run time it is its text. */
export const graphql = ((source: string, fragments: readonly string[] = []) =>
  [source, ...fragments].join('\n')) as unknown as Tada;

export type { ResultOf, VariablesOf } from 'gql.tada';

export type Document<Result, Variables> = TadaDocumentNode<Result, Variables>;
