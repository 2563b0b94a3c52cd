import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { useLocation } from 'preact-iso';
import type { Query } from './graphql.js';
import { useUrlState } from './location.js';
import { Loading, Problem } from './parts.js';

/** Lists: what a query answered as a table, and the links to its other pages. */

interface AskedProps {
  readonly query: Query<unknown>;
  /** Grey lines that are about as high as the answer. */
  readonly lines?: number | undefined;
  readonly retry?: boolean | undefined;
}

interface AnswerProps<Data> extends AskedProps {
  /** The part of the answer that is shown; undefined or null if there is none. */
  readonly data: Data | null | undefined;
  readonly children: (data: Data) => ComponentChildren;
}

/** An answer: its failure, grey lines until it is there, and then the `children` of it. */
export function Answer<Data>({ query, data, lines = 6, retry = true, children }: AnswerProps<Data>) {
  return (
    <>
      <Problem failure={query.failure} retry={retry} />
      {!data && query.loading && <Loading lines={lines} />}
      {data && children(data)}
    </>
  );
}

export interface Column<Row> {
  readonly title: ComponentChildren;
  readonly class?: string;
  /** The whole text of a cell that is cut short. */
  readonly hover?: (row: Row) => string;
  /** The order of the rows by this column, if they are, and the link that turns it around. */
  readonly sort?: { readonly isDescending: boolean; readonly href: string };
  /** True if its cells name their rows. */
  readonly namesRow?: boolean;
  readonly cell: (row: Row, index: number) => ComponentChildren;
}

interface TableProps<Row> {
  readonly caption: string;
  readonly rows: readonly Row[];
  /** A column that is false is left out. */
  readonly columns: readonly (Column<Row> | false)[];
  /** Acts on a row: the last column. */
  readonly actions?: (row: Row) => ComponentChildren;
  readonly rowKey: (row: Row) => string;
  readonly rowClass?: (row: Row) => string;
  readonly busy?: boolean;
  /** True if only screen readers get the titles of the columns. */
  readonly hidesTitles?: boolean;
  /** True for a table that does not become cards on a phone. */
  readonly staysTable?: boolean;
  readonly empty?: ComponentChildren;
}

/** The classes of cells that their title has, too. */
const OF_TITLES = ['number', 'roomy', 'check'];
const titleClass = (names = '') =>
  names
    .split(' ')
    .filter((name) => OF_TITLES.includes(name))
    .join(' ') || undefined;

/** A table that scrolls inside of itself, by keyboard, too; on a phone a card for each row. */
export function Table<Row>(props: TableProps<Row>) {
  const {
    caption,
    rows,
    rowKey,
    rowClass,
    actions,
    busy = false,
    hidesTitles = false,
    staysTable = false,
    empty,
  } = props;
  const columns = props.columns.filter((column) => column !== false);
  if (actions) columns.push({ title: <span class="hidden">Actions</span>, class: 'row-actions', cell: actions });
  if (rows.length === 0 && empty) return <>{empty}</>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable by keyboard
    <section class={staysTable ? 'table' : 'table cards'} aria-label={caption} aria-busy={busy} tabIndex={0}>
      <table>
        <caption class="hidden">{caption}</caption>
        <thead class={hidesTitles ? 'hidden' : undefined}>
          <tr>
            {columns.map((column, index) => (
              <SortableTitle key={index} {...column} />
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={rowKey(row)} class={rowClass?.(row)}>
              {columns.map(({ title, class: name, hover, namesRow, cell }, place) => {
                const Cell = namesRow ? 'th' : 'td';
                return (
                  <Cell
                    key={place}
                    scope={namesRow ? 'row' : undefined}
                    class={name}
                    title={hover?.(row)}
                    data-title={typeof title === 'string' && !hidesTitles ? title : undefined}
                  >
                    {cell(row, index)}
                  </Cell>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function SortableTitle<Row>({ title, class: name, sort }: Column<Row>) {
  return (
    <th scope="col" class={titleClass(name)} aria-sort={sort && (sort.isDescending ? 'descending' : 'ascending')}>
      {sort ? (
        <a href={sort.href}>
          {title} <span aria-hidden="true">{sort.isDescending ? '↓' : '↑'}</span>
        </a>
      ) : (
        title
      )}
    </th>
  );
}

export interface ListProps<Row> extends AskedProps, Omit<TableProps<Row>, 'rows' | 'busy'> {
  /** The rows of the query: all, or those of a page. */
  readonly found: readonly Row[] | { nodes: readonly Row[]; pageInfo: PageInfo } | null | undefined;
}

export function List<Row>({ query, lines, retry, found, ...table }: ListProps<Row>) {
  return (
    <Answer query={query} data={found} lines={lines} retry={retry}>
      {(rows) => (
        <>
          <Table busy={query.loading} rows={'nodes' in rows ? rows.nodes : rows} {...table} />
          {'nodes' in rows && <CursorPager pageInfo={rows.pageInfo} />}
        </>
      )}
    </Answer>
  );
}

/** A new page begins at its top; one that the back button shows again is where it was left. */
function useTopOfPage(page: string): void {
  const { wasPush } = useLocation() as { wasPush?: boolean };
  const shown = useRef(page);
  useEffect(() => {
    if (wasPush && shown.current !== page) scrollTo(0, 0);
    shown.current = page;
  }, [page, wasPush]);
}

export interface PageInfo {
  readonly endCursor: string | null;
  readonly startCursor?: string | null;
  readonly hasNextPage: boolean;
  readonly hasPreviousPage?: boolean;
}

interface CursorPagerProps {
  readonly pageInfo: PageInfo;
  readonly backwards?: boolean;
  /** True if the oldest rows come first. */
  readonly oldestFirst?: boolean;
}

/** Pages by cursor, which stay good while rows come and go. The cursor is in the URL as `after` or `before`. */
export function CursorPager({ pageInfo, backwards = false, oldestFirst = false }: CursorPagerProps) {
  const { query, href } = useUrlState();
  useTopOfPage(`${query['after']} ${query['before']}`);
  const moved = Boolean(query['after'] || query['before']);
  const { hasNextPage, hasPreviousPage, startCursor = null, endCursor } = pageInfo;
  if (!moved && !hasNextPage) return null;
  const isNewerLeft = backwards && moved && startCursor && (hasPreviousPage || query['after']);
  const isOlderLeft = endCursor && (hasNextPage || query['before']);
  const [first, back, onwards] = oldestFirst
    ? (['Oldest', 'Older', 'Newer'] as const)
    : (['Newest', 'Newer', 'Older'] as const);
  const link = (label: string, after: string | null, before: string | null) => (
    <a key={label} class="button" href={href({ after, before })}>
      {label}
    </a>
  );
  return (
    <nav class="pager" aria-label="Pages">
      {moved && link(first, null, null)}
      {isNewerLeft && link(back, null, startCursor)}
      {isOlderLeft && link(onwards, endCursor, null)}
    </nav>
  );
}
