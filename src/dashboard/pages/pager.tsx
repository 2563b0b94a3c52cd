import { useEffect, useRef } from 'preact/hooks';
import { useLocation } from 'preact-iso';
import { formatNumber } from './format.js';
import { useUrlState } from './location.js';

/** A new page begins at its top; one that the back button shows again is where it was left. */
function useTopOfPage(page: string): void {
  const { wasPush } = useLocation() as { wasPush?: boolean };
  const shown = useRef(page);
  useEffect(() => {
    if (wasPush && shown.current !== page) scrollTo(0, 0);
    shown.current = page;
  }, [page, wasPush]);
}

/** Pages by number. The page is in the URL as `page`. */
export function Pager({ page, pageCount }: { page: number; pageCount: number }) {
  useTopOfPage(String(page));
  const { href, go } = useUrlState();
  const to = (target: number) => href({ page: target > 1 ? String(target) : null });
  const link = (label: string, target: number, possible: boolean) =>
    possible ? (
      <a class="button" href={to(target)}>
        {label}
      </a>
    ) : (
      <span class="button" aria-disabled="true">
        {label}
      </span>
    );
  return (
    <nav class="pager" aria-label="Pages">
      {link('First', 1, page > 1)}
      {link('Previous', Math.min(page - 1, pageCount), page > 1)}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const wanted = Math.trunc(Number(new FormData(event.currentTarget).get('page')));
          const target = Math.min(Math.max(1, wanted || 1), Math.max(1, pageCount));
          go({ page: target > 1 ? String(target) : null });
        }}
      >
        <label>
          <span class="quiet">Page</span>
          <input key={page} name="page" inputMode="numeric" defaultValue={String(page)} aria-label="Page number" />
        </label>
        <span class="quiet">of {formatNumber(Math.max(1, pageCount))}</span>
      </form>
      {link('Next', page + 1, page < pageCount)}
      {link('Last', pageCount, page < pageCount)}
    </nav>
  );
}

export interface PageInfo {
  readonly endCursor: string | null;
  readonly startCursor?: string | null;
  readonly hasNextPage: boolean;
  readonly hasPreviousPage?: boolean;
}

/** Pages by cursor, which stay good while rows come and go. The cursor is in the URL as `after` or `before`. */
export function CursorPager({ pageInfo, backwards = false }: { pageInfo: PageInfo; backwards?: boolean }) {
  const { query, href } = useUrlState();
  useTopOfPage(`${query['after']} ${query['before']}`);
  const moved = Boolean(query['after'] || query['before']);
  if (!moved && !pageInfo.hasNextPage) return null;
  return (
    <nav class="pager" aria-label="Pages">
      {moved && (
        <a class="button" href={href({ after: null, before: null })}>
          Newest
        </a>
      )}
      {backwards && moved && (pageInfo.hasPreviousPage || query['after']) && pageInfo.startCursor && (
        <a class="button" href={href({ before: pageInfo.startCursor, after: null })}>
          Newer
        </a>
      )}
      {(pageInfo.hasNextPage || query['before']) && pageInfo.endCursor && (
        <a class="button" href={href({ after: pageInfo.endCursor, before: null })}>
          Older
        </a>
      )}
    </nav>
  );
}
