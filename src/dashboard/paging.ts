import type { ObjectRef } from '@pothos/core';
import { MAX_ROWS } from '../domain/bounds.js';
import { cursorOf } from '../domain/cursors.js';
import { readNumber } from '../domain/parse.js';
import { withDefault } from '../graphql/shared.js';
import { builder } from './builder.js';

/** The users of a page whose length was not asked. */
export const DEFAULT_PAGE = 25;

/** A number of items, or BAD_USER_INPUT. */
export const readLimit = (name: string, value: number) => readNumber(name, value, MAX_ROWS);
/** The argument that says how many. */
export const firstArgument = (otherwise: number) => withDefault(otherwise, `How many, 1 to ${MAX_ROWS}.`);
/** How many of the newest items, or BAD_USER_INPUT. */
export const readNewest = (value: number) => readNumber('newest', value);

/** An item with its place in a list, newest first. */
type Listed = { readonly id: number } & ({ readonly createdAt: string } | { readonly at: string });

/** A page of a list. */
export interface Connection<Item extends Listed> {
  readonly nodes: readonly Item[];
  readonly hasNextPage: boolean;
  readonly hasPreviousPage: boolean;
  readonly total?: number | null;
}

const placeOf = (item: Listed | undefined) =>
  item && cursorOf({ id: item.id, createdAt: 'at' in item ? item.at : item.createdAt });

const pageInfoType = builder.objectRef<Connection<Listed>>('PageInfo').implement({
  description: 'Where a page stands in the whole list.',
  fields: (t) => ({
    startCursor: t.string({
      nullable: true,
      description: 'The cursor of the first item; null where the page is empty.',
      resolve: ({ nodes }) => placeOf(nodes[0]),
    }),
    endCursor: t.string({
      nullable: true,
      description: 'The cursor of the last item, for `after`; null where the page is empty.',
      resolve: ({ nodes }) => placeOf(nodes.at(-1)),
    }),
    hasNextPage: t.exposeBoolean('hasNextPage', { description: 'Whether there are items after this page.' }),
    hasPreviousPage: t.exposeBoolean('hasPreviousPage', { description: 'Whether there are items before this page.' }),
  }),
});

type Ref<Item> = ObjectRef<typeof builder.$inferSchemaTypes, Item, Item>;

/** The type of a page of items; with `total`, what it describes, the pages are counted. */
export function connectionType<Item extends Listed>(
  name: string,
  item: Ref<Item> | Ref<Omit<Item, 'id'>> | Ref<Omit<Item, 'at'>>,
  { description, total }: { description: string; total?: string },
): Ref<Connection<Item>> {
  const type = builder.objectRef<Connection<Item>>(name);
  return type.implement({
    description,
    fields: (t) => ({
      nodes: t.field({
        type: [item],
        description: 'What is on this page.',
        resolve: ({ nodes }) => nodes,
      }),
      pageInfo: t.field({
        type: pageInfoType,
        description: 'What is before and after this page.',
        resolve: (page) => page,
      }),
      ...(total !== undefined && {
        totalCount: t.int({ description: total, resolve: ({ total: count }) => count as number }),
      }),
    }),
  });
}
