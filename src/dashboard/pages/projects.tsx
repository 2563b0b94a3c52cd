import { useState } from 'preact/hooks';
import { Dialog, DialogForm } from './dialog.js';
import { daysAgo, formatNumber, plural } from './format.js';
import { graphql, send } from './graphql.js';
import { paths, useTitle, useUrlState } from './location.js';
import { CursorPager } from './pager.js';
import { Badge, Copy, Empty, Field, Header, Loading, Problem, Table, Time } from './parts.js';
import { useAction, useQuery } from './query.js';
import { SameByApi, SameByApiDetails } from './recipes.js';
import { SecretDialog } from './secret-once.js';
import { may } from './session.js';
import { Sparkline } from './sparkline.js';

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

/** All projects, newest first, or those that the search finds. */
export function Projects() {
  const { query } = useUrlState();
  const [creating, setCreating] = useState(false);
  const search = query['q'] ?? null;
  const { data, failure, loading } = useQuery(PROJECTS, {
    search,
    after: query['after'] ?? null,
    from: daysAgo(29),
    to: daysAgo(0),
  });
  const found = data?.projects;
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
        {may('operate') && (
          <button type="button" class="primary" onClick={() => setCreating(true)}>
            Create project
          </button>
        )}
      </Header>
      <Problem failure={failure} retry />
      {!found && loading && <Loading />}
      {found && found.nodes.length === 0 && <NoProjects search={search} />}
      {found && found.nodes.length > 0 && (
        <Table caption="Projects" busy={loading}>
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">App ID</th>
              <th scope="col" class="number">
                Users
              </th>
              <th scope="col" class="roomy">
                Sign-ups, 30 days
              </th>
              <th scope="col" class="roomy">
                Created
              </th>
            </tr>
          </thead>
          <tbody>
            {found.nodes.map((project) => (
              <tr key={project.appId}>
                <td class="main-cell">
                  <a href={paths.project(project.appId)}>
                    <bdi>{project.name}</bdi>
                  </a>
                  {project.disabledAt && <Badge tone="warn">disabled</Badge>}
                </td>
                <td class="nowrap">
                  <code>{project.appId}</code> <Copy text={project.appId} what={`App ID ${project.appId}`} />
                </td>
                <td class="number">{formatNumber(project.userCount)}</td>
                <td class="roomy">
                  <Sparkline totals={project.signUps.map(({ total }) => total)} />
                </td>
                <td class="roomy nowrap">
                  <Time at={project.createdAt} dayOnly />
                </td>
              </tr>
            ))}
          </tbody>
        </Table>
      )}
      {found && <CursorPager pageInfo={found.pageInfo} />}
      {creating && <CreateProject onClose={() => setCreating(false)} />}
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

function CreateProject({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState('');
  const create = useAction(async () => (await send(CREATE, { name })).createProject);
  const [created, setCreated] = useState<{ appId: string; appSecret: string } | null>(null);
  const submit = async () => {
    const done = await create.run();
    if (done) setCreated({ appId: done.project.appId, appSecret: done.appSecret });
  };
  if (created)
    return (
      <SecretDialog key="created" title="The project is created" {...created} onClose={onClose}>
        <button type="button" onClick={onClose}>
          Done
        </button>
        <a class="button primary" href={paths.project(created.appId)}>
          Open the project
        </a>
      </SecretDialog>
    );
  return (
    <Dialog title="Create project" onClose={onClose} busy={create.busy}>
      <DialogForm submit="Create" onSubmit={submit} onCancel={onClose} {...create} disabled={name.trim() === ''}>
        <Field label="Name" hint="For people; it can be changed later.">
          <input value={name} required onInput={(event) => setName(event.currentTarget.value)} />
        </Field>
        <SameByApiDetails recipe={{ userdir: ['project', 'create', '--name', name || 'NAME'] }} />
      </DialogForm>
    </Dialog>
  );
}
