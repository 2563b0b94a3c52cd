import { useEffect } from 'preact/hooks';
import { useLocation } from 'preact-iso';

const segments = (...parts: string[]) => ['/dashboard', ...parts.map(encodeURIComponent)].join('/');

/** Where each screen is. A screen keeps its filters and its page in the query string, so that every link is complete. */
export const paths = {
  projects: '/dashboard',
  operators: segments('operators'),
  sessions: segments('sessions'),
  status: segments('status'),
  project: (appId: string) => segments(appId),
  users: (appId: string) => segments(appId, 'users'),
  user: (appId: string, id: string) => segments(appId, 'users', id),
  secrets: (appId: string) => segments(appId, 'secrets'),
  bans: (appId: string) => segments(appId, 'bans'),
  webhooks: (appId: string) => segments(appId, 'webhooks'),
  audit: (appId: string) => segments(appId, 'audit'),
  settings: (appId: string) => segments(appId, 'settings'),
};

/** Links that the router follows itself. Downloads and other pages of the service are not among them. */
export const ROUTED = /^\/dashboard(?!\/(projects|oidc|assets)(\/|$))/;

export type Changes = Record<string, string | null>;

/** The state of a screen in the URL. A null or empty value is left out. */
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
    query: query as Record<string, string | undefined>,
    href,
    go: (changes: Changes, { replace = false } = {}) => route(href(changes), replace),
  };
}

export function useTitle(...parts: string[]): void {
  const title = [...parts, 'userdir'].join(' · ');
  useEffect(() => {
    document.title = title;
  }, [title]);
}
