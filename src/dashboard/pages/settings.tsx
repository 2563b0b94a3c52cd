import { useSignal } from '@preact/signals';
import { useLocation } from 'preact-iso';
import { FormDialog, type FormDialogProps, TextField } from './form.js';
import { graphql, may, send, useAction } from './graphql.js';
import { paths } from './location.js';
import { announce, Button, Problem, Time } from './parts.js';
import { SameByApiDetails } from './recipes.js';
import { type CurrentProject, Header, useCurrentProject, useTitle } from './screen.js';

const RENAME = graphql(
  `mutation RenameProject($appId: ID!, $name: String!) { renameProject(appId: $appId, name: $name) { changed } }`,
);
const LIMIT = graphql(
  `mutation LimitProject($appId: ID!, $rate: Int) { limitProject(appId: $appId, rate: $rate) { changed } }`,
);
const DISABLE = graphql(`mutation DisableProject($appId: ID!) { disableProject(appId: $appId) { changed } }`);
const ENABLE = graphql(`mutation EnableProject($appId: ID!) { enableProject(appId: $appId) { changed } }`);
const DELETE = graphql(
  `mutation DeleteProject($appId: ID!, $name: String!) { deleteProject(appId: $appId, name: $name) }`,
);

export function Settings({ appId }: { appId: string }) {
  const project = useCurrentProject();
  useTitle('Settings');
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

interface SettingFormProps extends Omit<FormDialogProps<unknown>, 'onDone' | 'danger'> {
  readonly done: string;
}

/** One setting, which is changed in its place. */
function SettingForm({ title, submit, work, done, recipe, disabled, children }: SettingFormProps) {
  const change = useAction(work);
  return (
    <section class="setting">
      <h2>{title}</h2>
      <form
        onSubmit={async (event) => {
          event.preventDefault();
          if (await change.run()) announce(done);
        }}
      >
        {children}
        <Problem failure={change.failure} />
        <button type="submit" disabled={change.busy || disabled}>
          {submit}
        </button>
        <SameByApiDetails recipe={recipe} />
      </form>
    </section>
  );
}

function Rename({ project: { appId, name } }: OfProject) {
  const newName = useSignal(name);
  return (
    <SettingForm
      title="Name"
      submit="Rename"
      work={() => send(RENAME, { appId, name: newName.value })}
      done="The project is renamed."
      recipe={{ userdir: ['project', 'rename', appId, newName.value] }}
      disabled={newName.value.trim() === '' || newName.value === name}
    >
      <TextField
        label="Name of the project"
        hint="For people. The App ID stays the same."
        text={newName}
        name="name"
        required
      />
    </SettingForm>
  );
}

function Limit({ project: { appId, requestsPerMinute } }: OfProject) {
  const now = String(requestsPerMinute ?? '');
  const newLimit = useSignal(now);
  const rate = newLimit.value === '' ? null : Number(newLimit.value);
  return (
    <SettingForm
      title="Rate limit"
      submit="Change the limit"
      work={() => send(LIMIT, { appId, rate })}
      done="The limit is changed."
      recipe={{ userdir: ['project', 'limit', appId, '--rate', String(rate ?? 'default')] }}
      disabled={newLimit.value === now}
    >
      <TextField
        label="Requests in a minute"
        hint="Empty: what the setting RATE_LIMIT says."
        type="number"
        min={1}
        max={100_000_000}
        text={newLimit}
        name="rate"
      />
    </SettingForm>
  );
}

function Availability({ project: { appId, disabledAt } }: OfProject) {
  const word = disabledAt ? 'enable' : 'disable';
  const title = disabledAt ? 'Enable the project' : 'Disable the project';
  return (
    <section class="setting">
      <h2>{title}</h2>
      <p>
        {disabledAt ? (
          <>
            Disabled since <Time at={disabledAt} />. Its secrets are refused until it is enabled.
          </>
        ) : (
          'While a project is disabled, all its secrets are refused, and its webhooks are sent nothing. Nothing is lost.'
        )}
      </p>
      <Button
        label={`${title}…`}
        opens={
          <FormDialog
            title={`${title}?`}
            submit={disabledAt ? 'Enable' : 'Disable'}
            danger={!disabledAt}
            work={async () => (disabledAt ? send(ENABLE, { appId }) : send(DISABLE, { appId }))}
            recipe={{ userdir: ['project', word, appId] }}
            done={`The project is ${word}d.`}
          >
            <p>
              {disabledAt
                ? 'Its secrets work again at once, and its webhooks go on.'
                : 'Every request of its backends is refused at once, and its webhooks stop.'}
            </p>
          </FormDialog>
        }
      />
    </section>
  );
}

function Deletion({ project }: OfProject) {
  return (
    <section class="setting">
      <h2>Delete the project</h2>
      <p>
        Its users with their accounts, its bans, secrets, webhooks and audit trail are erased. This cannot be undone.
        Export the users first.
      </p>
      <Button label="Delete the project…" class="danger" opens={<DeleteProject project={project} />} />
    </section>
  );
}

function DeleteProject({ project: { appId, name } }: OfProject) {
  const { route } = useLocation();
  const typed = useSignal('');
  return (
    <FormDialog
      title="Delete the project?"
      submit="Delete for ever"
      danger
      work={() => send(DELETE, { appId, name: typed.value })}
      recipe={{ userdir: ['project', 'delete', appId] }}
      onDone={({ deleteProject: isGone }) => {
        announce(isGone ? 'The project is deleted.' : 'The project is disabled; its deletion goes on.');
        route(paths.projects, true);
      }}
      disabled={typed.value !== name}
      unsaved={false}
    >
      <p>
        To delete it with everything in it, type its name:{' '}
        <strong>
          <bdi>{name}</bdi>
        </strong>
      </p>
      <TextField label="Name of the project" text={typed} />
    </FormDialog>
  );
}
