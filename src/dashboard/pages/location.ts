import { useLocation } from 'preact-iso';

const segments = (...parts: string[]) => ['/dashboard', ...parts.map(encodeURIComponent)].join('/');

type ScreenOfProject = 'users' | 'secrets' | 'bans' | 'webhooks' | 'audit' | 'settings';

/** The path of each screen, with its filters and its page in the query string, so that every link is complete. */
export const paths = {
  projects: segments(),
  operators: segments('operators'),
  sessions: segments('sessions'),
  passkeys: segments('passkeys'),
  status: segments('status'),
  project: (appId: string, ...screen: [] | [ScreenOfProject]) => segments(appId, ...screen),
  user: (appId: string, id: string) => segments(appId, 'users', id),
  webhook: (appId: string, id: string) => segments(appId, 'webhooks', id),
};

/** The path of a stream of the service, which is no operation. */
export const streamPath = (appId: string, what: 'audit' | 'export' | 'import' | 'news') =>
  segments('projects', appId, what);

/** Links that the router follows itself. Downloads and other pages of the service are not among them. */
export const ROUTED = /^\/dashboard(?!\/(projects|oidc|assets)(\/|$))/;

export type UrlState = Record<string, string | undefined>;
type Changes = Record<string, string | null>;

/** Another filter begins at the first page. */
export const FIRST_PAGE = { after: null, before: null };

/** The state of a screen, and what changes it. A null or empty value is left out. */
export function useUrlState() {
  const { path, query, route } = useLocation();
  const href = (changes: Changes) => {
    const next = new URLSearchParams(query);
    for (const [name, value] of Object.entries(changes)) {
      if (value) next.set(name, value);
      else next.delete(name);
    }
    const text = next.toString();
    return text ? `${path}?${text}` : path;
  };
  return {
    query: query as UrlState,
    href,
    go: (changes: Changes, { replace = false } = {}) => route(href(changes), replace),
  };
}
