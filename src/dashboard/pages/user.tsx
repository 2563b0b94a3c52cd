import { signal, useSignal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { atMost } from '#dist/domain/input-limits.js';
import {
  calledInSentence,
  hintOf,
  KEPT_FIELDS,
  KEPT_TEXTS,
  type KeptText,
  ofKeptTexts,
} from '#dist/domain/kept-texts.js';
import { Until } from './ban-terms.js';
import { LiftBan } from './bans.js';
import { BulkButton } from './bulk.js';
import { FormDialog, TextField } from './form.js';
import { plural } from './format.js';
import { api, Failure, graphql, inProject, may, type ResultOf, useQuery, type VariablesOf } from './graphql.js';
import { Accounts, IDENTITIES, Identities } from './identities.js';
import { paths } from './location.js';
import { MergeUser } from './merge-users.js';
import { Badge, Button, Copy, CopyValue, Fact, State, Swatch, Time, Value } from './parts.js';
import { command, type Sending, sending } from './recipes.js';
import { Header, Missing, useTitle } from './screen.js';
import { Answer } from './table.js';
import { userRecipe } from './user-list.js';
import { namesOf } from './user-table.js';
import { TIMELINE, Timeline } from './user-timeline.js';

const USER = graphql(
  `
  query User($appId: ID!, $id: ID!) {
    project(appId: $appId) {
      user(id: $id) {
        loginMethod email wallet externalId createdAt lastLogin loginCount mergedInto
        ban { createdAt reason expiresAt authMethod authValue isOfUser }
        ...Identities
      }
      ...Timeline
    }
  }
`,
  [IDENTITIES, TIMELINE],
);

type Project = NonNullable<ResultOf<typeof USER>['project']>;

interface OfUser {
  readonly appId: string;
  readonly user: NonNullable<Project['user']>;
}

/** Everything that is known of one user, and what may be done with it. */
export function User({ appId, id }: { appId: string; id: string }) {
  const query = useQuery(USER, { appId, id });
  useTitle(`User ${id}`);
  return (
    <>
      <p class="crumbs">
        <a href={paths.project(appId, 'users')}>Users</a> / {id}
      </p>
      <Answer query={query} data={query.data?.project}>
        {(known) => (
          <>
            {known.user ? (
              <Known appId={appId} user={known.user} />
            ) : (
              <Missing title={`User ${id}`} says="This project has no user with this ID.">
                {known.audit.nodes.length > 0 && 'It was erased; its audit trail remains. '}
                <a href={paths.project(appId, 'users')}>Show all users</a>
              </Missing>
            )}
            <Timeline appId={appId} id={id} known={known} />
          </>
        )}
      </Answer>
    </>
  );
}

function Known({ appId, user }: OfUser) {
  const { id, ban, removedAt } = user;
  const [name = '', other] = namesOf(user);
  const offer = (action: 'remove' | 'restore' | 'ban' | 'unban', tone = '') => (
    <BulkButton appId={appId} action={action} users={[user]} class={tone} />
  );
  return (
    <>
      <Header
        title={<Value>{name}</Value>}
        note={
          <>
            {other && <Value>{other}</Value>}
            <Summary appId={appId} user={user} />
          </>
        }
        recipe={{ ...userRecipe(appId, id), userdir: command('user get', { project: appId, userId: id }) }}
        more={
          may('edit') && (
            <>
              {removedAt === null && <Button label="Merge…" opens={<MergeUser appId={appId} user={user} />} />}
              {ban?.isOfUser && (
                <BulkButton appId={appId} action="ban" label="Change ban…" users={[user]} terms={ban} />
              )}
              {ban && !ban.isOfUser && (
                <Button
                  label="Unban identity…"
                  opens={<LiftBan appId={appId} authMethod={ban.authMethod} authValue={ban.authValue} />}
                />
              )}
              {offer(ban?.isOfUser ? 'unban' : 'ban')}
              {removedAt === null && offer('remove', 'danger')}
            </>
          )
        }
      >
        {removedAt === null
          ? may('edit') && <Button label="Edit…" class="primary" opens={<EditUser appId={appId} user={user} />} />
          : offer('restore', 'primary')}
      </Header>
      <dl class="facts">
        <Fact name="ID">
          {id} <Copy text={id} what="the user ID" />
        </Fact>
        <Fact name="Method">
          <Swatch method={user.loginMethod} titled /> <Value>{user.authMethod}</Value>
        </Fact>
        <Fact name="Value">
          <CopyValue text={user.authValue} what="the auth value" />
        </Fact>
        {user.email && (
          <Fact name="Email">
            <Value>{user.email}</Value>
          </Fact>
        )}
        {user.wallet && (
          <Fact name="Wallet">
            <Value mono>{user.wallet}</Value>
          </Fact>
        )}
        {KEPT_FIELDS.map((field) => (
          <KeptTextFact key={field} field={field} text={user[field]} />
        ))}
        <Fact name="Created">
          <Time at={user.createdAt} />
        </Fact>
        {ban && (
          <>
            <Fact name="Banned since">
              <Time at={ban.createdAt} />
            </Fact>
            <Fact name="Banned until">
              <Until expiresAt={ban.expiresAt} />
            </Fact>
            {!ban.isOfUser && (
              <Fact name="Banned identity">
                <Value>{ban.authMethod}</Value> <Value>{ban.authValue}</Value>
              </Fact>
            )}
            {ban.reason && (
              <Fact name="Reason of the ban">
                <bdi>{ban.reason}</bdi>
              </Fact>
            )}
          </>
        )}
      </dl>
      <Identities appId={appId} user={user} />
      <Accounts appId={appId} user={user} />
      <Metadata appId={appId} user={user} />
    </>
  );
}

/** A text that the backend keeps with the user, if there is one. */
function KeptTextFact({ field, text }: { field: KeptText; text: string | null }) {
  return (
    text && (
      <Fact name={KEPT_TEXTS[field].label}>
        <CopyValue text={text} what={calledInSentence(field)} />
      </Fact>
    )
  );
}

/** What one looks for first: the state, the last login, and how many there were. */
function Summary({ appId, user: { ban, removedAt, mergedInto, lastLogin, loginCount } }: OfUser) {
  return (
    <span class="summary">
      {ban && <State is="banned" />}
      {removedAt && (
        <span>
          <State is="removed" /> <Time at={removedAt} />{' '}
          {mergedInto && <a href={paths.user(appId, mergedInto)}>merged into user {mergedInto}</a>}
        </span>
      )}
      {!ban && !removedAt && <Badge tone="good">active</Badge>}
      <span>
        {lastLogin ? (
          <>
            last login <Time at={lastLogin} />
          </>
        ) : (
          'never logged in'
        )}
      </span>
      <span>{plural(loginCount, 'login')}</span>
    </span>
  );
}

const UPDATE = inProject(
  api(`mutation UpdateUser($id: ID!, $input: UpdateUserInput!) { updateUser(id: $id, input: $input) { user { id } } }`),
);

type UserChanges = VariablesOf<typeof UPDATE>['input'];
type ChangeableText = 'email' | KeptText;
type TextChanges = Pick<UserChanges, ChangeableText>;

/** A value as an option of a command: an empty text takes it away. */
function optionOf(value: unknown): string {
  if (value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function update({ appId, user }: OfUser, input: UserChanges) {
  const options = Object.fromEntries(Object.entries(input).map(([name, value]) => [name, optionOf(value)]));
  return sending(
    UPDATE,
    { project: appId, id: user.id, input },
    command('user update', { project: appId, userId: user.id, ...options }),
  );
}

/** The text of a field, if the user has another value. */
const changeOf = (field: ChangeableText, text: string, had: string | null): TextChanges =>
  text.trim() === (had ?? '') ? {} : { [field]: text.trim() || null };

function EditUser({ appId, user }: OfUser) {
  const email = useSignal(user.email ?? '');
  const [texts] = useState(() => ofKeptTexts((field) => signal(user[field] ?? '')));
  const changes = KEPT_FIELDS.map((field) => changeOf(field, texts[field].value, user[field]));
  const input: TextChanges = Object.assign(changeOf('email', email.value, user.email), ...changes);
  return (
    <FormDialog
      title={`Edit user ${user.id}`}
      submit="Save"
      {...update({ appId, user }, input)}
      done="The user is changed."
      disabled={Object.keys(input).length === 0}
    >
      <TextField
        label="Email"
        hint={
          user.authMethod === 'email'
            ? 'this user logs in by it: a new address takes its place at once'
            : 'a later login that brings an email replaces it; empty: none'
        }
        text={email}
        name="email"
      />
      {KEPT_FIELDS.map((field) => (
        <TextField
          key={field}
          label={KEPT_TEXTS[field].label}
          hint={`${hintOf(field)}; empty: none`}
          text={texts[field]}
          name={field}
        />
      ))}
    </FormDialog>
  );
}

const asText = (metadata: object | null) => (metadata === null ? '' : JSON.stringify(metadata, null, 2));

function Metadata(of: OfUser) {
  const { metadata, removedAt } = of.user;
  return (
    <section>
      <div class="section-header">
        <h2>Metadata</h2>
        {may('edit') && removedAt === null && <Button label="Edit…" of="metadata" opens={<EditMetadata {...of} />} />}
      </div>
      {metadata ? <pre>{asText(metadata)}</pre> : <p class="quiet">Your backend keeps nothing with this user.</p>}
    </section>
  );
}

/** What was typed; null if that is nothing. Throws a Failure. */
function parseJson(text: string): object | null {
  if (text.trim() === '') return null;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Failure(`metadata: got a text, expected a JSON object: ${(error as Error).message}.`, 'BAD_USER_INPUT');
  }
}

/** Without a recipe while what was typed is no JSON. */
function saveMetadata(of: OfUser, text: string): Sending<unknown> {
  try {
    return update(of, { metadata: parseJson(text) });
  } catch (failure) {
    return { work: () => Promise.reject(failure), recipe: [] };
  }
}

function EditMetadata({ appId, user }: OfUser) {
  const before = asText(user.metadata);
  const text = useSignal(before);
  return (
    <FormDialog
      title={`Metadata of user ${user.id}`}
      submit="Save"
      {...saveMetadata({ appId, user }, text.value)}
      done="The metadata is changed."
      disabled={text.value.trim() === before}
    >
      <TextField
        label="Metadata"
        hint={`a JSON object of ${atMost('metadata')}; empty: none`}
        text={text}
        name="metadata"
        rows={10}
      />
    </FormDialog>
  );
}
