import type { ObjectRef } from '@pothos/core';
import { builder } from './builder.js';

interface PageInfo {
  readonly hasNextPage: boolean;
  readonly hasPreviousPage: boolean;
  readonly startCursor: string | null;
  readonly endCursor: string | null;
}

/** A page of a connection. Its cursors are those of its first and its last item, unless it has others. */
export interface Page<Item> extends Pick<PageInfo, 'hasNextPage' | 'hasPreviousPage'> {
  readonly nodes: readonly Item[];
  readonly startCursor?: string | null;
  readonly endCursor?: string | null;
}

const pageInfoType = builder.objectRef<PageInfo>('PageInfo').implement({
  description: 'Where a page of a connection stands in the whole list (Relay).',
  // Other subgraphs have connections too.
  directives: { shareable: {} },
  fields: (t) => ({
    hasNextPage: t.exposeBoolean('hasNextPage', {
      description:
        'Whether there is more after this page. Exact, in whichever direction you page, except where users are selected by what is not counted.',
    }),
    hasPreviousPage: t.exposeBoolean('hasPreviousPage', {
      description:
        'Whether there is more before this page. Exact for users, in whichever direction you page; for changes and bans, and where users are selected by what is not counted, whether `after` was given.',
    }),
    startCursor: t.exposeString('startCursor', {
      nullable: true,
      description:
        'The cursor of the first item of this page; null when the page is empty, except where users are selected by what is not counted.',
    }),
    endCursor: t.exposeString('endCursor', {
      nullable: true,
      description:
        'The cursor of the last item of this page, to be given as `after`; null when a page of users or bans is empty, except where users are selected by what is not counted: then it is where the search of this page ended. A page of changes always has one.',
    }),
  }),
});

/** The type of a page of items. Its fields and those of its edges say what they are given here. */
export function connectionType<Item, List extends Page<Item> = Page<Item>>(
  item: ObjectRef<typeof builder.$inferSchemaTypes, Item>,
  cursorOf: (item: Item) => string,
  says: Record<'connection' | 'edges' | 'nodes' | 'pageInfo' | 'edge' | 'cursor' | 'node', string>,
) {
  const edgeType = builder.objectRef<Item>(`${item.name}Edge`).implement({
    description: says.edge,
    fields: (t) => ({
      cursor: t.string({ description: says.cursor, resolve: (node) => cursorOf(node) }),
      node: t.field({ type: item, description: says.node, resolve: (node) => node as never }),
    }),
  });
  const cursorAt = (node: Item | undefined) => (node === undefined ? null : cursorOf(node));
  return builder.objectRef<List>(`${item.name}Connection`).implement({
    description: says.connection,
    fields: (t) => ({
      edges: t.field({ type: [edgeType], description: says.edges, resolve: ({ nodes }) => nodes }),
      nodes: t.field({ type: [item], description: says.nodes, resolve: ({ nodes }) => nodes }),
      pageInfo: t.field({
        type: pageInfoType,
        description: says.pageInfo,
        resolve: ({ nodes, hasNextPage, hasPreviousPage, startCursor, endCursor }) => ({
          hasNextPage,
          hasPreviousPage,
          startCursor: startCursor === undefined ? cursorAt(nodes[0]) : startCursor,
          endCursor: endCursor === undefined ? cursorAt(nodes.at(-1)) : endCursor,
        }),
      }),
    }),
  });
}
