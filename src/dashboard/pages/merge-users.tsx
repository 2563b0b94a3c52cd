import { useSignal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { useLocation } from 'preact-iso';
import { closeDialog, openDialog } from './dialog.js';
import { FormDialog, SelectField, TextField } from './form.js';
import { api, Failure, graphql, inProject, type ResultOf, send, useQuery } from './graphql.js';
import { Named, type OfUser } from './identities.js';
import { paths } from './location.js';
import { Fact } from './parts.js';
import { command, sending } from './recipes.js';
import { Answer } from './table.js';

/** How two users become one: who stays, what moves, and the merge. */

const FIND = graphql(`
  query FindUsers($appId: ID!, $any: String!) {
    project(appId: $appId) { findUsers(any: $any) { id authMethod authValue email removedAt } }
  }
`);
type Candidate = NonNullable<ResultOf<typeof FIND>['project']>['findUsers'][number];

/** Asks into whom a user is to be merged. */
export function MergeUser(of: OfUser) {
  const { appId, user } = of;
  const any = useSignal('');
  return (
    <FormDialog
      title={`Merge user ${user.id} into another`}
      submit="Show what moves"
      work={async () => {
        const { project } = await send(FIND, { appId, any: any.value });
        const users = project?.findUsers.filter(({ id, removedAt }) => id !== user.id && removedAt === null) ?? [];
        if (users.length === 0) throw new Failure('No other user of this project matches.', 'BAD_USER_INPUT');
        return users;
      }}
      recipe={[]}
      onDone={(users) => openDialog(<MergeInto {...of} users={users} />)}
      disabled={any.value.trim() === ''}
    >
      <p>
        If two users are one person, what this user has goes to the other one, who stays. Merge only if the person has
        proved both to be theirs.
      </p>
      <TextField
        label="The user who stays"
        hint="user ID, external ID, email, address, or the ID at a provider"
        text={any}
        name="any"
        required
      />
    </FormDialog>
  );
}

const PREVIEW = graphql(`
  query MergePreview($appId: ID!, $from: ID!, $into: ID!) {
    project(appId: $appId) { mergePreview(from: $from, into: $into) { name text } }
  }
`);
const MERGE = inProject(
  api(`mutation MergeUsers($from: ID!, $into: ID!) { mergeUsers(from: $from, into: $into) { user { id } } }`),
);

const nameOf = ({ id, authValue, email }: Candidate) =>
  `${id}: ${authValue}${email && email !== authValue ? ` (${email})` : ''}`;

/** Shows what would move, and merges. */
function MergeInto({ appId, user, users }: OfUser & { users: readonly Candidate[] }) {
  const [into, setInto] = useState(users[0]?.id ?? '');
  const { route } = useLocation();
  const merging = { project: appId, from: user.id, into };
  const query = useQuery(PREVIEW, { appId, from: user.id, into });
  const effects = query.data?.project?.mergePreview;
  return (
    <FormDialog
      key="preview"
      title={`Merge user ${user.id} into user ${into}?`}
      submit="Merge"
      danger
      {...sending(MERGE, merging, command('user merge', merging))}
      done="The users are one."
      onDone={() => {
        closeDialog();
        route(paths.user(appId, into));
      }}
      disabled={!effects || effects.some(({ name }) => name === 'Refused')}
    >
      {users.length > 1 && (
        <SelectField
          label="The user who stays"
          value={into}
          options={users.map((each) => [each.id, nameOf(each)] as const)}
          onChange={setInto}
        />
      )}
      <p class="long">
        <Named {...user} /> becomes a part of {users.filter(({ id }) => id === into).map(Named)}. It cannot be undone.
      </p>
      <Answer query={query} data={effects} retry={false}>
        {(all) => (
          <dl class="facts">
            {all.map(({ name, text }) => (
              <Fact key={name} name={name}>
                <bdi>{text}</bdi>
              </Fact>
            ))}
          </dl>
        )}
      </Answer>
    </FormDialog>
  );
}
