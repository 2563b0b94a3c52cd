import { useState } from 'preact/hooks';
import { closeDialog, Dialog } from './dialog.js';
import { DialogForm } from './form.js';
import { plural } from './format.js';
import { graphql, may, type ResultOf, send, useAction } from './graphql.js';
import { paths } from './location.js';
import { Badge, Button } from './parts.js';
import type { Recipe } from './recipes.js';
import { Table } from './table.js';
import { banRecipe, removalRecipe } from './user-recipes.js';
import type { Row } from './user-table.js';

const REMOVE = graphql(
  `mutation RemoveUsers($appId: ID!, $ids: [ID!]!) { results: removeUsers(appId: $appId, ids: $ids) { id ok code message } }`,
);
const RESTORE = graphql(
  `mutation RestoreUsers($appId: ID!, $ids: [ID!]!) { results: restoreUsers(appId: $appId, ids: $ids) { id ok code message } }`,
);
const BAN = graphql(
  `mutation BanUsers($appId: ID!, $ids: [ID!]!) { results: banUsers(appId: $appId, ids: $ids) { id ok code message } }`,
);
const UNBAN = graphql(
  `mutation UnbanUsers($appId: ID!, $ids: [ID!]!) { results: unbanUsers(appId: $appId, ids: $ids) { id ok code message } }`,
);

const ACTIONS = {
  remove: {
    operation: REMOVE,
    permission: 'remove',
    verb: 'Remove',
    done: 'removed',
    effect:
      'A removed user is gone from every list, total and search. The same identity may register again, and gets a new ID. Until a purge, a removal can be undone on the page of the user.',
  },
  restore: {
    operation: RESTORE,
    permission: 'restore',
    verb: 'Restore',
    done: 'restored',
    effect: 'A restored user is back with the same ID, unless the identity has registered again in the meantime.',
  },
  ban: {
    operation: BAN,
    permission: 'ban',
    verb: 'Ban',
    done: 'banned',
    effect: 'Logins and registrations of a banned identity are refused. The user stays in lists and totals.',
  },
  unban: {
    operation: UNBAN,
    permission: 'ban',
    verb: 'Unban',
    done: 'unbanned',
    effect: 'The identity may log in and register again.',
  },
} as const;

type BulkAction = keyof typeof ACTIONS;
type Results = ReadonlyMap<string, ResultOf<typeof REMOVE>['results'][number]>;

type Target = Pick<Row, 'id' | 'authMethod' | 'authValue'>;

/** Of many users, the lines for a shell: what removes one by GraphQL does not say more when it is repeated. */
function recipesFor(appId: string, action: BulkAction, users: readonly Target[]): readonly Recipe[] {
  if (action === 'restore') return users.map(({ id }) => ({ userdir: ['user', 'restore', '--project', appId, id] }));
  if (action !== 'remove')
    return users.map(({ authMethod, authValue }) => banRecipe(appId, action, authMethod, authValue));
  const removals = users.map(({ id }) => removalRecipe(appId, id));
  return users.length === 1 ? removals : removals.map(({ graphql: _one, ...lines }) => lines);
}

/** The most users of one request. */
const BATCH = 100;

interface BulkProps {
  readonly appId: string;
  readonly action: BulkAction;
  readonly users: readonly Target[];
  /** Called when it is closed after something was done. */
  readonly onChanged?: (() => void) | undefined;
}

/** A button that removes, restores, bans or unbans users, for those who may: shows who is concerned, and asks first. */
export function BulkButton({ class: tone, ...bulk }: BulkProps & { class?: string }) {
  const { permission, verb } = ACTIONS[bulk.action];
  return may(permission) && <Button label={`${verb}…`} class={tone} opens={<BulkDialog {...bulk} />} />;
}

function BulkDialog({ appId, action, users, onChanged }: BulkProps) {
  const { operation, verb, done, effect } = ACTIONS[action];
  const [results, setResults] = useState<Results | null>(null);
  const { run, ...state } = useAction(async () => {
    let found: Results = new Map();
    for (let start = 0; start < users.length; start += BATCH) {
      const ids = users.slice(start, start + BATCH).map(({ id }) => id);
      const { results: more } = await send(operation, { appId, ids });
      found = new Map([...found, ...more.map((result) => [result.id, result] as const)]);
      setResults(found);
    }
  });
  const list = (
    <div class="dialog-list">
      <Table
        caption={results ? 'Results' : 'Users concerned'}
        hidesTitles
        rows={users}
        rowKey={({ id }) => id}
        columns={[
          {
            title: 'ID',
            class: 'number',
            cell: ({ id }) => (results?.has(id) ? <a href={paths.user(appId, id)}>{id}</a> : id),
          },
          {
            title: 'User',
            class: 'main-cell',
            hover: ({ authValue }) => authValue,
            cell: ({ authMethod, authValue }) => (
              <>
                <bdi>{authValue}</bdi>
                <span class="second-line">
                  <bdi>{authMethod}</bdi>
                </span>
              </>
            ),
          },
          {
            title: 'Result',
            cell: ({ id }) => {
              const result = results?.get(id);
              if (result?.ok) return <Badge tone="good">{done}</Badge>;
              return result && <span class="bad">{result.message}</span>;
            },
          },
        ]}
      />
    </div>
  );
  const target = plural(users.length, 'user');
  if (!results || state.busy)
    return (
      <DialogForm
        title={`${verb} ${target}?`}
        submit={`${verb} ${target}`}
        danger={action === 'remove' || action === 'ban'}
        recipe={recipesFor(appId, action, users)}
        onSubmit={run}
        {...state}
      >
        <p>{effect}</p>
        {list}
      </DialogForm>
    );
  const close = () => {
    closeDialog();
    onChanged?.();
  };
  const count = plural([...results.values()].filter(({ ok }) => ok).length, 'user');
  return (
    <Dialog
      key="results"
      title={`${count} of ${users.length} ${done}`}
      onClose={close}
      actions={<Button label="Done" class="primary" onClick={close} />}
    >
      <output class="hidden">{`${count} ${done}`}</output>
      {list}
    </Dialog>
  );
}
