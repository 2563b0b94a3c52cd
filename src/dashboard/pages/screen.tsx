import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { useLocation } from 'preact-iso';
import { plural } from './format.js';
import { graphql, may, type ResultOf, useQuery } from './graphql.js';
import { paths } from './location.js';
import { Empty, Loading, Menu, Problem } from './parts.js';
import { type Recipe, SameByApi } from './recipes.js';
import { List, type ListProps } from './table.js';

/** Screens: their project, their title, and those that are one list. */

const PROJECT = graphql(
  `query Project($appId: ID!) {
    project(appId: $appId) {
      appId name disabledAt requestsPerMinute defaultRequestsPerMinute
      webhooks { status reason failures }
    }
  }`,
);

export type CurrentProject = NonNullable<ResultOf<typeof PROJECT>['project']>;

const newest = signal<CurrentProject | null>(null);

/** The project whose screens are shown; null outside of projects. */
export function useCurrentProject(): CurrentProject | null {
  const { path } = useLocation();
  const project = newest.value;
  return project && path.split('/')[2] === encodeURIComponent(project.appId) ? project : null;
}

/** Loads the project that the URL names, and says so if there is none. */
export function ProjectFrame({ appId, children }: { appId: string; children: ComponentChildren }) {
  const { data, failure, loading } = useQuery(PROJECT, { appId });
  const project = data?.project;
  useEffect(() => {
    if (project) newest.value = project;
  }, [project]);
  if (failure && !project) return <Problem failure={failure} retry />;
  if (!project && loading) return <Loading />;
  if (!project)
    return (
      <Missing title="No such project" says="No project has this App ID.">
        It may have been deleted, or you may not see it. <a href={paths.projects}>Go to the projects</a>
      </Missing>
    );
  return (
    <>
      {project.disabledAt && (
        <p class="banner warn" role="status">
          This project is disabled: its secrets are refused. <a href={paths.project(appId, 'settings')}>Settings</a>
        </p>
      )}
      <FailingWebhooks project={project} />
      {children}
    </>
  );
}

/** What its backend does not get is known on each screen of the project. The screens of webhooks say more of it. */
function FailingWebhooks({ project: { appId, webhooks } }: { project: CurrentProject }) {
  const { path } = useLocation();
  const href = paths.project(appId, 'webhooks');
  const failing = webhooks.filter(({ status, reason, failures }) =>
    status === 'ENABLED' ? failures > 0 : reason !== null,
  ).length;
  if (failing === 0 || path.startsWith(href)) return null;
  return (
    <p class="banner warn" role="status">
      {plural(failing, 'webhook')} of this project {failing === 1 ? 'does' : 'do'} not get through.{' '}
      <a href={href}>Webhooks</a>
    </p>
  );
}

type Screens = [name: string, href: string][];

export const screensOfProject = ({ appId }: Pick<CurrentProject, 'appId'>): Screens => [
  ['Overview', paths.project(appId)],
  ['Users', paths.project(appId, 'users')],
  ['Secrets', paths.project(appId, 'secrets')],
  ['Bans', paths.project(appId, 'bans')],
  ['Webhooks', paths.project(appId, 'webhooks')],
  ['Audit', paths.project(appId, 'audit')],
  ['Settings', paths.project(appId, 'settings')],
];

export const screensOfService = (): Screens => [
  ...((may('govern') ? [['Operators', paths.operators]] : []) as Screens),
  ...((may('oversee') ? [['Status', paths.status]] : []) as Screens),
];

export const SCREENS_OF_OPERATOR: Screens = [
  ['Passkeys', paths.passkeys],
  ['Sessions', paths.sessions],
];

/** Names a screen, and its project, in the title of the page. */
export function useTitle(screen: string): void {
  const project = useCurrentProject();
  const title = [screen, ...(project ? [project.name] : []), 'userdir'].join(' · ');
  useEffect(() => {
    document.title = title;
  }, [title]);
}

interface HeaderProps {
  readonly title: ComponentChildren;
  readonly note?: ComponentChildren;
  readonly recipe?: Recipe | undefined;
  readonly children?: ComponentChildren;
  /** The quiet actions, in a menu. */
  readonly more?: ComponentChildren;
}

export function Header({ title, note, recipe, children, more }: HeaderProps) {
  const api = recipe && <SameByApi recipe={recipe} />;
  return (
    <header class="screen-header">
      <div>
        <h1 tabIndex={-1}>{title}</h1>
        {note && <p class="quiet">{note}</p>}
      </div>
      <div class="actions">
        {!more && api}
        {children}
        {more && (
          <Menu name="More">
            {api}
            {more}
          </Menu>
        )}
      </div>
    </header>
  );
}

interface MissingProps {
  readonly title: string;
  readonly says: string;
  readonly children?: ComponentChildren;
}

/** Instead of a screen: why there is none, and where to go. */
export function Missing({ title, says, children }: MissingProps) {
  return (
    <>
      <Header title={title} />
      <Empty title={says}>{children}</Empty>
    </>
  );
}

/** Instead of a screen that another operator sees. */
export const NotAllowed = ({ title, to }: { title: string; to: string }) => (
  <Missing title={title} says={`Only an ${to} of all projects sees the ${title.toLowerCase()}.`} />
);

interface ListScreenProps<Row> extends Omit<HeaderProps, 'title' | 'children'>, Omit<ListProps<Row>, 'caption'> {
  readonly title: string;
  readonly caption?: string;
  readonly offers?: ComponentChildren;
  readonly filter?: ComponentChildren;
}

export function ListScreen<Row>({ title, note, recipe, offers, filter, ...list }: ListScreenProps<Row>) {
  useTitle(title);
  return (
    <>
      <Header title={title} note={note} recipe={recipe}>
        {offers}
      </Header>
      {filter}
      <List caption={title} {...list} />
    </>
  );
}
