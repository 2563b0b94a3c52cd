import { useSignal } from '@preact/signals';
import { closeDialog, openDialog } from './dialog.js';
import { sumOf } from './figures.js';
import { FormDialog, TextField } from './form.js';
import { daysAgo, formatNumber, plural } from './format.js';
import { graphql, may, type ResultOf, useQuery } from './graphql.js';
import { paths, useUrlState } from './location.js';
import { Badge, Button, CopyCode, Empty, Time } from './parts.js';
import { command, sending } from './recipes.js';
import { ListScreen } from './screen.js';
import { SecretDialog } from './secrets.js';
import type { Column } from './table.js';

const PROJECTS = graphql(`
  query Projects($search: String, $after: String, $from: Date!, $to: Date!) {
    projects(search: $search, first: 50, after: $after) {
      totalCount
      nodes { appId name createdAt disabledAt userCount signUps(from: $from, to: $to, by: DAY) { total } }
      pageInfo { hasNextPage endCursor }
    }
  }
`);

const CREATE = graphql(`
  mutation CreateProject($name: String!) { createProject(name: $name) { appSecret project { appId name } } }
`);

const COLUMNS: readonly Column<ResultOf<typeof PROJECTS>['projects']['nodes'][number]>[] = [
  {
    title: 'Name',
    class: 'main-cell',
    cell: ({ appId, name, disabledAt }) => (
      <>
        <a href={paths.project(appId)}>
          <bdi>{name}</bdi>
        </a>
        {disabledAt && <Badge tone="warn">disabled</Badge>}
      </>
    ),
  },
  { title: 'App ID', class: 'nowrap', cell: ({ appId }) => <CopyCode text={appId} what={`App ID ${appId}`} /> },
  { title: 'Users', class: 'number', cell: ({ userCount }) => formatNumber(userCount) },
  {
    title: 'Sign-ups, 30 days',
    class: 'roomy',
    cell: ({ signUps }) => <Sparkline totals={signUps.map(({ total }) => total)} />,
  },
  { title: 'Created', class: 'roomy nowrap', cell: ({ createdAt }) => <Time at={createdAt} dayOnly /> },
];

/** All projects of the operator, newest first, or those that the search finds. */
export function Projects() {
  const { q: search = null, after = null } = useUrlState().query;
  const query = useQuery(PROJECTS, { search, after, from: daysAgo(29), to: daysAgo(0) });
  const projects = query.data?.projects;
  return (
    <ListScreen
      title="Projects"
      note={
        projects &&
        plural(projects.totalCount, search ? 'project found' : 'project', search ? 'projects found' : 'projects')
      }
      recipe={{ userdir: command('project list', {}) }}
      offers={may('govern') && <Button label="Create project" class="primary" opens={<CreateProject />} />}
      query={query}
      found={projects}
      rowKey={({ appId }) => appId}
      columns={COLUMNS}
      empty={
        search ? (
          <Empty title="No project matches.">
            The search looks into names and App IDs. <a href={paths.projects}>Show all projects</a>
          </Empty>
        ) : (
          <Empty title={may('oversee') ? 'There are no projects yet.' : 'No project is yours.'}>
            {may('govern')
              ? 'Create one: it gets an App ID and an App Secret for its backend.'
              : `An admin of all projects can ${may('oversee') ? 'create one' : 'give you some'}.`}
          </Empty>
        )
      }
    />
  );
}

function CreateProject() {
  const name = useSignal('');
  return (
    <FormDialog
      title="Create project"
      submit="Create"
      {...sending(CREATE, { name: name.value }, command('project create', { name: name.value || 'NAME' }))}
      onDone={({ createProject: { appSecret, project } }) =>
        openDialog(
          <SecretDialog
            title="The project is created"
            appId={project.appId}
            appSecret={appSecret}
            actions={
              <>
                <Button label="Done" onClick={closeDialog} />
                <a class="button primary" href={paths.project(project.appId)}>
                  Open the project
                </a>
              </>
            }
          />,
        )
      }
      disabled={name.value.trim() === ''}
    >
      <TextField label="Name" hint="For people; it can be changed later." text={name} name="name" required />
    </FormDialog>
  );
}

const SPARK_HEIGHT = 60;

/** Sign-ups of the last days as small bars. Its numbers are in its name, for screen readers. */
function Sparkline({ totals }: { totals: readonly number[] }) {
  const label = `${plural(sumOf(totals), 'sign-up')} in the last ${totals.length} days`;
  const most = Math.max(1, ...totals);
  const bars = totals.map((value, at) => {
    const height = Math.max(2, (SPARK_HEIGHT * value) / most);
    return value === 0 ? '' : `M${at * 10} ${SPARK_HEIGHT}v${-height}h8v${height}z`;
  });
  const viewBox = `0 0 ${totals.length * 10} ${SPARK_HEIGHT}`;
  return (
    <svg class="sparkline" role="img" aria-label={label} viewBox={viewBox} preserveAspectRatio="none">
      <title>{label}</title>
      <path d={bars.join('')} />
    </svg>
  );
}
