import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { useLocation } from 'preact-iso';
import { graphql, type ResultOf } from './graphql.js';
import { paths, useTitle } from './location.js';
import { Empty, Header, Loading, Problem } from './parts.js';
import { useQuery } from './query.js';

const PROJECT = graphql(
  `query Project($appId: ID!) { project(appId: $appId) { appId name disabledAt requestsPerMinute } }`,
);

export type CurrentProject = NonNullable<ResultOf<typeof PROJECT>['project']>;

const newest = signal<CurrentProject | null>(null);

/** The project whose screens are shown; null outside of projects. */
export function useCurrentProject(): CurrentProject | null {
  const { path } = useLocation();
  const project = newest.value;
  return project && path.split('/')[2] === encodeURIComponent(project.appId) ? project : null;
}

/** Names a screen of a project in the title of the page. */
export function useProjectTitle(screen: string): CurrentProject | null {
  const project = useCurrentProject();
  useTitle(screen, project?.name ?? '');
  return project;
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
      <>
        <Header title="No such project" />
        <Empty title="No project has this App ID.">
          It may have been deleted. <a href={paths.projects}>Go to the projects</a>
        </Empty>
      </>
    );
  return (
    <>
      {project.disabledAt && (
        <p class="banner warn" role="status">
          This project is disabled: its secrets are refused. <a href={paths.settings(appId)}>Settings</a>
        </p>
      )}
      {children}
    </>
  );
}
