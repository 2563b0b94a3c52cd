import type { initGraphQLTada, TadaDocumentNode } from 'gql.tada';
import type { introspection } from '#dist/dashboard/introspection.js';
import type { introspection as ofCallers } from '#dist/dashboard/introspection-of-callers.js';

/*
 * Documents of pages and of commands: of the operators' schema, or of the public one in a project. The build checks them
 * (dashboard/pages/operation-types.js).
 */

type Tada = initGraphQLTada<{
  introspection: introspection;
  disableMasking: true;
  scalars: { DateTime: string; Date: string; ID: string; JSON: object };
}>;

/** An operation of the operators' schema, with the types of its variables and its answer. At run time it is its text. */
export const graphql = ((source: string, fragments: readonly string[] = []) =>
  [source, ...fragments].join('\n')) as unknown as Tada;

type TadaOfCallers = initGraphQLTada<{
  introspection: ofCallers;
  disableMasking: true;
  scalars: { DateTime: string; ID: string; JSON: object };
}>;

/** An operation of the public schema, or a fragment of it. An operator asks it `inProject`. */
export const api = ((source: string, fragments: readonly string[] = []) =>
  OF_CALLERS + [unindented(source), ...fragments].join('\n')) as unknown as TadaOfCallers;

/** A text without the indentation that it has in its file, which is that of its last line: people read the operation, too. */
function unindented(text: string): string {
  const [, indentation = ''] = /\n( *)\S[^\n]*$/.exec(text) ?? [];
  return text.replaceAll(`\n${indentation}`, '\n');
}

/** The operation with the variable `project`, which stands beside the others when it is sent: the App ID of the project in which it is asked. */
export const inProject = <Result, Variables>(operation: Document<Result, Variables>) =>
  operation as unknown as Document<Result, Variables & { readonly project: string }>;

/** The first line of each operation and fragment of the public schema: by it `sentOf` tells it from one of the operators' schema. */
const OF_CALLERS = '# in a project\n';

/** What is sent of a document with its variables. */
export interface Sent {
  readonly query: string;
  readonly variables: Readonly<Record<string, unknown>>;
  readonly project?: string;
}

/** A document and its variables as they are sent. In a project, each variable has a value: the public schema refuses an argument without one. */
export function sentOf(document: unknown, variables: unknown): Sent {
  const text = String(document);
  const given = variables as Readonly<Record<string, unknown>>;
  if (!text.startsWith(OF_CALLERS)) return { query: text, variables: given };
  const query = text.replaceAll(OF_CALLERS, '');
  const { project, ...others } = given;
  const names = [...query.slice(0, query.indexOf('{')).matchAll(/\$(\w+)/g)].map(([, name = '']) => name);
  const values = names.map((name) => [name, others[name] ?? null]);
  return { query, variables: Object.fromEntries(values), project: project as string };
}

export type { ResultOf, VariablesOf } from 'gql.tada';

export type Document<Result, Variables> = TadaDocumentNode<Result, Variables>;
