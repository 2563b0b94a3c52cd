import { useState } from 'preact/hooks';
import { useLocation } from 'preact-iso';
import { Dialog, DialogForm } from './dialog.js';
import { graphql, send } from './graphql.js';
import { paths, useTitle } from './location.js';
import { announce, Field, Header, Problem, Time } from './parts.js';
import { type CurrentProject, useCurrentProject } from './project-frame.js';
import { useAction } from './query.js';
import { SameByApiDetails } from './recipes.js';
import { may } from './session.js';

const RENAME = graphql(
  `mutation RenameProject($appId: ID!, $name: String!) { renameProject(appId: $appId, name: $name) { name } }`,
);
const LIMIT = graphql(
  `mutation LimitProject($appId: ID!, $rate: Int) { limitProject(appId: $appId, rate: $rate) { requestsPerMinute } }`,
);
const DISABLE = graphql(`mutation DisableProject($appId: ID!) { disableProject(appId: $appId) { disabledAt } }`);
const ENABLE = graphql(`mutation EnableProject($appId: ID!) { enableProject(appId: $appId) { disabledAt } }`);
const DELETE = graphql(
  `mutation DeleteProject($appId: ID!, $name: String!) { deleteProject(appId: $appId, name: $name) }`,
);

/** Name, limit, state and end of a project. */
export function Settings({ appId }: { appId: string }) {
  const project = useCurrentProject();
  useTitle('Settings', project?.name ?? '');
  if (!project) return null;
  return (
    <>
      <Header title="Settings" />
      {may('operate') ? (
        <>
          <Rename key={project.name} project={project} />
          <Limit key={`limit ${project.requestsPerMinute}`} project={project} />
          <Availability project={project} />
          <Deletion project={project} />
        </>
      ) : (
        <p class="quiet">
          The name is “<bdi>{project.name}</bdi>”. Only an admin may change the settings of <code>{appId}</code>.
        </p>
      )}
    </>
  );
}

interface OfProject {
  readonly project: CurrentProject;
}

function Rename({ project: { appId, name } }: OfProject) {
  const [wanted, setWanted] = useState(name);
  const rename = useAction(() => send(RENAME, { appId, name: wanted }));
  return (
    <section class="setting">
      <h2>Name</h2>
      <form
        onSubmit={async (event) => {
          event.preventDefault();
          if (await rename.run()) announce('The project is renamed.');
        }}
      >
        <Field label="Name of the project" hint="For people. The App ID stays the same.">
          <input value={wanted} required onInput={(event) => setWanted(event.currentTarget.value)} />
        </Field>
        <Problem failure={rename.failure} />
        <button type="submit" disabled={rename.busy || wanted.trim() === '' || wanted === name}>
          Rename
        </button>
        <SameByApiDetails recipe={{ userdir: ['project', 'rename', appId, wanted] }} />
      </form>
    </section>
  );
}

function Limit({ project: { appId, requestsPerMinute } }: OfProject) {
  const now = String(requestsPerMinute ?? '');
  const [wanted, setWanted] = useState(now);
  const rate = wanted === '' ? null : Number(wanted);
  const limit = useAction(() => send(LIMIT, { appId, rate }));
  return (
    <section class="setting">
      <h2>Rate limit</h2>
      <form
        onSubmit={async (event) => {
          event.preventDefault();
          if (await limit.run()) announce('The limit is changed.');
        }}
      >
        <Field label="Requests in a minute" hint="Empty: what the setting RATE_LIMIT says.">
          <input
            type="number"
            min={1}
            max={100_000_000}
            value={wanted}
            onInput={(event) => setWanted(event.currentTarget.value)}
          />
        </Field>
        <Problem failure={limit.failure} />
        <button type="submit" disabled={limit.busy || wanted === now}>
          Change the limit
        </button>
        <SameByApiDetails recipe={{ userdir: ['project', 'limit', appId, '--rate', String(rate ?? 'default')] }} />
      </form>
    </section>
  );
}

function Availability({ project: { appId, disabledAt } }: OfProject) {
  const [asking, setAsking] = useState(false);
  const change = useAction(async () => {
    if (disabledAt) await send(ENABLE, { appId });
    else await send(DISABLE, { appId });
    return true;
  });
  const submit = async () => {
    if (!(await change.run())) return;
    announce(disabledAt ? 'The project is enabled.' : 'The project is disabled.');
    setAsking(false);
  };
  const verb = disabledAt ? 'enable' : 'disable';
  const title = disabledAt ? 'Enable the project' : 'Disable the project';
  return (
    <section class="setting">
      <h2>{title}</h2>
      {disabledAt ? (
        <p>
          Disabled since <Time at={disabledAt} />. Its secrets are refused until it is enabled.
        </p>
      ) : (
        <p>While a project is disabled, all its secrets are refused. Nothing is lost.</p>
      )}
      <button type="button" onClick={() => setAsking(true)}>
        {title}…
      </button>
      {asking && (
        <Dialog title={`${title}?`} onClose={() => setAsking(false)} busy={change.busy}>
          <DialogForm
            submit={disabledAt ? 'Enable' : 'Disable'}
            danger={!disabledAt}
            onSubmit={submit}
            onCancel={() => setAsking(false)}
            {...change}
          >
            <p>
              {disabledAt ? 'Its secrets work again at once.' : 'Every request of its backends is refused at once.'}
            </p>
            <SameByApiDetails recipe={{ userdir: ['project', verb, appId] }} />
          </DialogForm>
        </Dialog>
      )}
    </section>
  );
}

function Deletion({ project: { appId, name } }: OfProject) {
  const { route } = useLocation();
  const [asking, setAsking] = useState(false);
  const [typed, setTyped] = useState('');
  const remove = useAction(() => send(DELETE, { appId, name: typed }));
  const submit = async () => {
    const done = await remove.run();
    if (!done) return;
    announce(done.deleteProject ? 'The project is deleted.' : 'The project is disabled; its deletion goes on.');
    route(paths.projects, true);
  };
  return (
    <section class="setting">
      <h2>Delete the project</h2>
      <p>
        Its users, accounts, bans, secrets and audit trail are erased. This cannot be undone. Export the users first.
      </p>
      <button type="button" class="danger" onClick={() => setAsking(true)}>
        Delete the project…
      </button>
      {asking && (
        <Dialog title="Delete the project?" onClose={() => setAsking(false)} busy={remove.busy}>
          <DialogForm
            submit="Delete for ever"
            danger
            onSubmit={submit}
            onCancel={() => setAsking(false)}
            {...remove}
            disabled={typed !== name}
          >
            <p>
              To delete it with everything in it, type its name:{' '}
              <strong>
                <bdi>{name}</bdi>
              </strong>
            </p>
            <Field label="Name of the project">
              <input value={typed} autocomplete="off" onInput={(event) => setTyped(event.currentTarget.value)} />
            </Field>
            <SameByApiDetails recipe={{ userdir: ['project', 'delete', appId] }} />
          </DialogForm>
        </Dialog>
      )}
    </section>
  );
}
