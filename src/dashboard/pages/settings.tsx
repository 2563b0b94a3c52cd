import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useLocation } from 'preact-iso';
import { FormDialog, TextField } from './form.js';
import { formatNumber } from './format.js';
import { graphql, may } from './graphql.js';
import { paths } from './location.js';
import { announce, Button, Time, Value } from './parts.js';
import { command, type Sending, sending } from './recipes.js';
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
  const { name, disabledAt } = project;
  if (!may('operate'))
    return (
      <>
        <Header title="Settings" />
        <p class="quiet">
          The name is “<bdi>{name}</bdi>”. Only an admin may change the settings of <code>{appId}</code>.
        </p>
      </>
    );
  return (
    <>
      <Header title="Settings" />
      <Setting title="Name" label="Rename…" opens={<Rename project={project} />}>
        <Value>{name}</Value>
      </Setting>
      <Setting title="Rate limit" label="Change the limit…" opens={<Limit project={project} />}>
        {limitOf(project)}
      </Setting>
      <Setting
        title="Availability"
        label={disabledAt ? 'Enable the project…' : 'Disable the project…'}
        opens={<Availability project={project} />}
      >
        {disabledAt ? (
          <>
            Disabled since <Time at={disabledAt} />. Its secrets are refused until it is enabled.
          </>
        ) : (
          'While a project is disabled, all its secrets are refused, and its webhooks are sent nothing. Nothing is lost.'
        )}
      </Setting>
      <Setting title="Deletion" label="Delete the project…" class="danger" opens={<DeleteProject project={project} />}>
        Its users with their accounts, its bans, secrets, webhooks and audit trail are erased. This cannot be undone.
        Export the users first.
      </Setting>
    </>
  );
}

/** What holds, in words. */
function limitOf({ requestsPerMinute: own, defaultRequestsPerMinute: setting }: CurrentProject): string {
  if (own !== null) return `${formatNumber(own)} requests in a minute.`;
  if (setting === null) return 'No limit: the project has none of its own, and the setting RATE_LIMIT is not given.';
  return `${formatNumber(setting)} requests in a minute, as the setting RATE_LIMIT says.`;
}

interface SettingProps {
  readonly title: string;
  readonly label: string;
  readonly class?: string;
  readonly opens: ComponentChildren;
  readonly children: ComponentChildren;
}

/** What is set, and the button that changes it. */
function Setting({ title, children, ...button }: SettingProps) {
  return (
    <section class="setting">
      <h2>{title}</h2>
      <p>{children}</p>
      <Button {...button} />
    </section>
  );
}

interface OfProject {
  readonly project: CurrentProject;
}

function Rename({ project: { appId, name } }: OfProject) {
  const newName = useSignal(name);
  return (
    <FormDialog
      title="Rename the project"
      submit="Rename"
      {...sending(
        RENAME,
        { appId, name: newName.value },
        command('project rename', { project: appId, name: newName.value }),
      )}
      done="The project is renamed."
      disabled={newName.value.trim() === '' || newName.value === name}
    >
      <TextField
        label="Name of the project"
        hint="For people. The App ID stays the same."
        text={newName}
        name="name"
        required
      />
    </FormDialog>
  );
}

function Limit({ project: { appId, requestsPerMinute } }: OfProject) {
  const now = String(requestsPerMinute ?? '');
  const newLimit = useSignal(now);
  const rate = newLimit.value === '' ? null : Number(newLimit.value);
  return (
    <FormDialog
      title="Limit the requests of the project"
      submit="Change"
      {...sending(LIMIT, { appId, rate }, command('project limit', { project: appId, rate: rate ?? 'default' }))}
      done="The limit is changed."
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
    </FormDialog>
  );
}

function Availability({ project: { appId, disabledAt } }: OfProject) {
  const [word, Word] = disabledAt ? ['enable', 'Enable'] : ['disable', 'Disable'];
  const options = { project: appId };
  const change: Sending<unknown> = disabledAt
    ? sending(ENABLE, { appId }, command('project enable', options))
    : sending(DISABLE, { appId }, command('project disable', options));
  return (
    <FormDialog
      title={`${Word} the project?`}
      submit={Word}
      danger={!disabledAt}
      {...change}
      done={`The project is ${word}d.`}
    >
      <p>
        {disabledAt
          ? 'Its secrets work again at once, and its webhooks go on.'
          : 'Every request of its backends is refused at once, and its webhooks stop.'}
      </p>
    </FormDialog>
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
      {...sending(DELETE, { appId, name: typed.value }, command('project delete', { project: appId }))}
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
