import { useSignal } from '@preact/signals';
import { CloseButton, useDialog } from './dialog.js';
import { FormDialog, TextField } from './form.js';
import { daysAgo, formatNumber, plural } from './format.js';
import { graphql, type ResultOf, send } from './graphql.js';
import { paths, useTitle, useUrlState } from './location.js';
import { Badge, Button, Copy, Empty, Header, Time } from './parts.js';
import { useQuery } from './query.js';
import { SameByApi } from './recipes.js';
import { SecretDialog } from './secrets.js';
import { may } from './session.js';
import { Answer, type Column, CursorPager, Table } from './table.js';

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

type Row = ResultOf<typeof PROJECTS>['projects']['nodes'][number];

const COLUMNS: readonly Column<Row>[] = [
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
  {
    title: 'App ID',
    class: 'nowrap',
    cell: ({ appId }) => (
      <>
        <code>{appId}</code> <Copy text={appId} what={`App ID ${appId}`} />
      </>
    ),
  },
  { title: 'Users', class: 'number', cell: ({ userCount }) => formatNumber(userCount) },
  {
    title: 'Sign-ups, 30 days',
    class: 'roomy',
    cell: ({ signUps }) => <Sparkline totals={signUps.map(({ total }) => total)} />,
  },
  { title: 'Created', class: 'roomy nowrap', cell: ({ createdAt }) => <Time at={createdAt} dayOnly /> },
];

/** All projects, newest first, or those that the search finds. */
export function Projects() {
  const { query: url } = useUrlState();
  const [dialog, open] = useDialog();
  const search = url['q'] ?? null;
  const query = useQuery(PROJECTS, { search, after: url['after'] ?? null, from: daysAgo(29), to: daysAgo(0) });
  const found = query.data?.projects;
  useTitle('Projects');
  return (
    <>
      <Header
        title="Projects"
        note={
          found &&
          plural(found.totalCount, search ? 'project found' : 'project', search ? 'projects found' : 'projects')
        }
      >
        <SameByApi recipe={{ userdir: ['project', 'list'] }} />
        {may('operate') && <Button label="Create project" class="primary" onClick={() => open(<CreateProject />)} />}
      </Header>
      <Answer query={query} data={found}>
        {({ nodes, pageInfo }) => (
          <>
            <Table
              caption="Projects"
              busy={query.loading}
              rows={nodes}
              rowKey={({ appId }) => appId}
              columns={COLUMNS}
              empty={<NoProjects search={search} />}
            />
            <CursorPager pageInfo={pageInfo} />
          </>
        )}
      </Answer>
      {dialog}
    </>
  );
}

function NoProjects({ search }: { search: string | null }) {
  if (search)
    return (
      <Empty title="No project matches.">
        The search looks into names and App IDs. <a href={paths.projects}>Show all projects</a>
      </Empty>
    );
  return (
    <Empty title="There are no projects yet.">
      {may('operate') ? 'Create one: it gets an App ID and an App Secret for its backend.' : 'An admin can create one.'}
    </Empty>
  );
}

function CreateProject() {
  const name = useSignal('');
  return (
    <FormDialog
      title="Create project"
      submit="Create"
      work={() => send(CREATE, { name: name.value })}
      recipe={{ userdir: ['project', 'create', '--name', name.value || 'NAME'] }}
      after={({ createProject: { appSecret, project } }) => (
        <SecretDialog title="The project is created" appId={project.appId} appSecret={appSecret}>
          <CloseButton class="">Done</CloseButton>
          <a class="button primary" href={paths.project(project.appId)}>
            Open the project
          </a>
        </SecretDialog>
      )}
      disabled={name.value.trim() === ''}
    >
      <TextField label="Name" hint="For people; it can be changed later." text={name} required />
    </FormDialog>
  );
}

/** Sign-ups of the last days as small bars. Its numbers are in its name, for screen readers. */
function Sparkline({ totals }: { totals: readonly number[] }) {
  const most = Math.max(1, ...totals);
  const sum = totals.reduce((total, value) => total + value, 0);
  const label = `${plural(sum, 'sign-up')} in the last ${totals.length} days`;
  return (
    <svg
      class="sparkline"
      role="img"
      aria-label={label}
      viewBox={`0 0 ${totals.length * 4} 24`}
      preserveAspectRatio="none"
    >
      <title>{label}</title>
      {totals.map((value, index) => {
        const height = value === 0 ? 1 : 2 + (22 * value) / most;
        return (
          <rect key={index} class={value === 0 ? 'zero' : ''} x={index * 4} y={24 - height} width="3" height={height} />
        );
      })}
    </svg>
  );
}
