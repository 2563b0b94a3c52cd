import { useState } from 'preact/hooks';
import { Dialog } from './dialog.js';
import { DialogForm } from './form.js';
import { plural } from './format.js';
import { graphql, send } from './graphql.js';
import { paths } from './location.js';
import { Badge, Button } from './parts.js';
import { useAction } from './query.js';
import { type Recipe, SameByApiDetails } from './recipes.js';
import { Table } from './table.js';
import { banRecipe, removalRecipe } from './user-recipes.js';

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

export type BulkAction = 'remove' | 'restore' | 'ban' | 'unban';

const ACTIONS = {
  remove: {
    operation: REMOVE,
    verb: 'Remove',
    done: 'removed',
    effect:
      'A removed user is gone from every list, total and search. The same identity may register again, and gets a new ID. Until a purge, a removal can be undone on the page of the user.',
  },
  restore: {
    operation: RESTORE,
    verb: 'Restore',
    done: 'restored',
    effect: 'A restored user is back with the same ID, unless the identity has registered again in the meantime.',
  },
  ban: {
    operation: BAN,
    verb: 'Ban',
    done: 'banned',
    effect: 'Logins and registrations of a banned identity are refused. The user stays in lists and totals.',
  },
  unban: {
    operation: UNBAN,
    verb: 'Unban',
    done: 'unbanned',
    effect: 'The identity may log in and register again.',
  },
};

interface Target {
  readonly id: string;
  readonly authMethod: string;
  readonly authValue: string;
}

type Result = { readonly id: string; readonly ok: boolean; readonly message: string | null };

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
  readonly onClose: (changed: boolean) => void;
}

/** Removes, restores, bans or unbans users: shows who is concerned first, and what became of each afterwards. */
export function BulkDialog({ appId, action, users, onClose }: BulkProps) {
  const { operation, verb, done, effect } = ACTIONS[action];
  const [results, setResults] = useState<ReadonlyMap<string, Result> | null>(null);
  const change = useAction(async () => {
    const found = new Map<string, Result>();
    for (let start = 0; start < users.length; start += BATCH) {
      const ids = users.slice(start, start + BATCH).map(({ id }) => id);
      for (const result of (await send(operation, { appId, ids })).results) found.set(result.id, result);
      setResults(new Map(found));
    }
    return found;
  });
  const close = () => onClose(results !== null);
  const count = [...(results?.values() ?? [])].filter(({ ok }) => ok).length;
  const recipes = recipesFor(appId, action, users);
  const list = <Targets appId={appId} users={users} results={results} done={done} />;
  if (results && !change.busy)
    return (
      <Dialog key="results" title={`${plural(count, 'user')} of ${users.length} ${done}`} onClose={close}>
        <output class="hidden">{`${plural(count, 'user')} ${done}`}</output>
        {list}
        <div class="dialog-actions">
          <Button label="Done" class="primary" onClick={close} />
        </div>
      </Dialog>
    );
  return (
    <Dialog title={`${verb} ${plural(users.length, 'user')}?`} onClose={close} busy={change.busy}>
      <DialogForm
        submit={`${verb} ${plural(users.length, 'user')}`}
        danger={action === 'remove' || action === 'ban'}
        onSubmit={() => void change.run()}
        onCancel={close}
        {...change}
      >
        <p>{effect}</p>
        {list}
        <SameByApiDetails recipe={recipes} />
      </DialogForm>
    </Dialog>
  );
}

interface TargetsProps {
  readonly appId: string;
  readonly users: readonly Target[];
  readonly results: ReadonlyMap<string, Result> | null;
  readonly done: string;
}

function Targets({ appId, users, results, done }: TargetsProps) {
  return (
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
}
