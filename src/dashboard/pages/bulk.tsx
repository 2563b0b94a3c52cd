import { signal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { MAX_IDS } from '#dist/domain/bounds.js';
import type { Permission } from '#dist/domain/projects.js';
import { commandTerms, type GivenTerms, givenTerms, type PresentTerms, TermsFields, useTerms } from './ban-terms.js';
import { closeDialog, Dialog, openDialog } from './dialog.js';
import { DialogForm, FormDialog, UndoOffer } from './form.js';
import { plural } from './format.js';
import { api, Failure, graphql, inProject, may, type ResultOf, send, useAction } from './graphql.js';
import { paths } from './location.js';
import { announce, Button, State } from './parts.js';
import { asked, command, type Recipe } from './recipes.js';
import { Table } from './table.js';
import type { Row } from './user-table.js';

const REMOVE = inProject(
  api(`mutation RemoveUsers($ids: [ID!]!) { removeUsers(ids: $ids) { outcomes { id ok code message } } }`),
);
const RESTORE = graphql(
  `mutation RestoreUsers($appId: ID!, $ids: [ID!]!) { results: restoreUsers(appId: $appId, ids: $ids) { id ok code message } }`,
);
const BAN = inProject(
  api(`mutation BanUsers($ids: [ID!]!, $reason: String, $expiresAt: String, $untilLifted: Boolean) {
    banUsers(ids: $ids, reason: $reason, expiresAt: $expiresAt, untilLifted: $untilLifted) { outcomes { id ok code message } }
  }`),
);
const UNBAN = graphql(
  `mutation UnbanUsers($appId: ID!, $ids: [ID!]!) { results: unbanUsers(appId: $appId, ids: $ids) { id ok code message } }`,
);

type Outcome = ResultOf<typeof RESTORE>['results'][number];

interface Several {
  readonly appId: string;
  readonly ids: string[];
  readonly terms: GivenTerms;
}

interface Action {
  readonly change: (several: Several) => Promise<readonly Outcome[]>;
  /** The same without the dashboard. A command that takes one user has a line for each. */
  readonly recipes: (several: Several) => readonly Recipe[];
  readonly permission: Permission;
  readonly verb: string;
  readonly done: 'removed' | 'restored' | 'banned' | 'unbanned';
  readonly effect: string;
}

type BulkAction = 'remove' | 'restore' | 'ban' | 'unban';

const ACTIONS: Readonly<Record<BulkAction, Action>> = {
  remove: {
    change: async ({ appId, ids }) => (await send(REMOVE, { project: appId, ids })).removeUsers.outcomes,
    recipes: ({ appId: project, ids }) => [
      {
        ...asked(REMOVE, { project, ids }),
        ...(ids.length === 1 && {
          curl: { method: 'DELETE', path: `/server/users/${encodeURIComponent(`${ids[0]}`)}` },
        }),
        userdir: command('user remove', { project, userId: ids }),
      },
    ],
    permission: 'remove',
    verb: 'Remove',
    done: 'removed',
    effect:
      'A removed user is gone from every list, total and search. The same identity may register again, and gets a new ID. Until a purge, a removal can be undone: under Removed users, or on the page of the user.',
  },
  restore: {
    change: async ({ appId, ids }) => (await send(RESTORE, { appId, ids })).results,
    recipes: ({ appId: project, ids }) => [{ userdir: command('user restore', { project, userId: ids }) }],
    permission: 'restore',
    verb: 'Restore',
    done: 'restored',
    effect: 'A restored user is back with the same ID, unless another user has the identity or the external ID by now.',
  },
  ban: {
    change: async ({ appId, ids, terms }) => (await send(BAN, { project: appId, ids, ...terms })).banUsers.outcomes,
    recipes: ({ appId: project, ids, terms }) => [
      asked(BAN, { project, ids, ...terms }),
      ...ids.map((userId) => ({ userdir: command('user ban', { project, userId, ...commandTerms(terms) }) })),
    ],
    permission: 'ban',
    verb: 'Ban',
    done: 'banned',
    effect:
      'None of the identities of a banned user can log in or register, nor any that is linked later. The user stays in lists and totals. Who is banned already keeps the reason or the end that you leave empty.',
  },
  unban: {
    change: async ({ appId, ids }) => (await send(UNBAN, { appId, ids })).results,
    recipes: ({ appId: project, ids }) =>
      ids.map((userId) => ({ userdir: command('user unban', { project, userId }) })),
    permission: 'ban',
    verb: 'Unban',
    done: 'unbanned',
    effect: 'All identities may log in and register again, but those with a ban of their own.',
  },
};

type Results = ReadonlyMap<string, Outcome>;

type Target = Pick<Row, 'id' | 'authMethod' | 'authValue' | 'email'>;

/** Acts on users, by parts, and tells after each what became of all so far. */
async function act(
  { appId, action, users }: Omit<BulkProps, 'onChanged'>,
  terms: GivenTerms = {},
  tell?: (results: Results) => void,
) {
  let results: Results = new Map();
  for (let start = 0; start < users.length; start += MAX_IDS) {
    const ids = users.slice(start, start + MAX_IDS).map(({ id }) => id);
    const more = await ACTIONS[action].change({ appId, ids, terms });
    results = new Map([...results, ...more.map((result) => [result.id, result] as const)]);
    tell?.(results);
  }
  const done = users.filter(({ id }) => results.get(id)?.ok);
  if (action === 'remove' && done.length > 0) lastRemoval.value = { appId, users: done };
  if (action === 'restore') forget(done);
  return results;
}

/** The users of the last removal, as long as this page is open: it can be undone. */
const lastRemoval = signal<{ appId: string; users: readonly Target[] } | null>(null);

/** A user who is current again needs no undo. */
function forget(restored: readonly Target[]) {
  const removal = lastRemoval.value;
  const users = removal?.users.filter(({ id }) => !restored.some((user) => user.id === id)) ?? [];
  lastRemoval.value = removal && users.length > 0 ? { ...removal, users } : null;
}

/** Offers to undo the last removal in a project. */
export function UndoRemoval({ appId }: { appId: string }) {
  const removal = lastRemoval.value;
  if (removal?.appId !== appId) return null;
  const { users } = removal;
  const forgetAll = () => {
    lastRemoval.value = null;
  };
  const undo = async () => {
    const results = await act({ appId, action: 'restore', users });
    forgetAll();
    const restored = [...results.values()].filter(({ ok }) => ok).length;
    announce(`${plural(restored, 'user')} restored.`);
    if (restored < users.length) openDialog(<Outcome appId={appId} users={users} results={results} action="restore" />);
  };
  const text = `${plural(users.length, 'user')} ${users.length === 1 ? 'was' : 'were'} removed.`;
  return <UndoOffer text={text} undo={undo} forget={forgetAll} />;
}

interface BulkProps {
  readonly appId: string;
  readonly action: BulkAction;
  readonly users: readonly Target[];
  /** The present terms of a ban that is to be changed. */
  readonly terms?: PresentTerms;
  /** Called when it is closed after something was done. */
  readonly onChanged?: (() => void) | undefined;
}

/** A button that removes, restores, bans or unbans users, for those who may: shows who is concerned, and asks first. */
export function BulkButton({ class: tone, label, ...bulk }: BulkProps & { class?: string; label?: string }) {
  const { permission, verb } = ACTIONS[bulk.action];
  const Asking = bulk.users.length === 1 ? OneDialog : BulkDialog;
  return may(permission) && <Button label={label ?? `${verb}…`} class={tone} opens={<Asking {...bulk} />} />;
}

function close({ onChanged }: BulkProps): void {
  closeDialog();
  onChanged?.();
}

/** The question before it begins. */
function question({ appId, action, users, terms: before }: BulkProps, terms: GivenTerms) {
  const { verb, recipes } = ACTIONS[action];
  const target = plural(users.length, 'user');
  return {
    title: before ? 'Change this ban' : `${verb} ${target}?`,
    submit: before ? 'Change' : `${verb} ${target}`,
    danger: action === 'remove' || action === 'ban',
    recipe: recipes({ appId, ids: users.map(({ id }) => id), terms }),
  };
}

/** Of one user, all is said in one dialog: it closes when it is done, and else says why not. */
function OneDialog(bulk: BulkProps) {
  const { action } = bulk;
  const { done, effect } = ACTIONS[action];
  const terms = useTerms(bulk.terms);
  const work = async () => {
    const results = await act(bulk, givenTerms(terms));
    for (const { ok, message, code } of results.values()) if (!ok) throw new Failure(message ?? '', code ?? '');
    return results;
  };
  return (
    <FormDialog {...question(bulk, givenTerms(terms))} work={work} done={`1 user ${done}.`} onDone={() => close(bulk)}>
      {bulk.terms === undefined && <p>{effect}</p>}
      {action === 'ban' && <TermsFields {...terms} />}
      <Targets {...bulk} />
    </FormDialog>
  );
}

/** Of many users, it closes when all is done, and else says of each what became of it. */
function BulkDialog(bulk: BulkProps) {
  const { action } = bulk;
  const terms = useTerms();
  const [results, setResults] = useState<Results | null>(null);
  const { run, ...state } = useAction(() => act(bulk, givenTerms(terms), setResults));
  const onSubmit = async () => {
    const all = await run();
    if (!all || [...all.values()].some(({ ok }) => !ok)) return;
    close(bulk);
    announce(`${plural(all.size, 'user')} ${ACTIONS[action].done}.`);
  };
  if (results && !state.busy) return <Outcome {...bulk} results={results} />;
  return (
    <DialogForm {...question(bulk, givenTerms(terms))} onSubmit={onSubmit} {...state}>
      <p>{ACTIONS[action].effect}</p>
      {action === 'ban' && <TermsFields {...terms} />}
      <Targets {...bulk} results={results} />
    </DialogForm>
  );
}

/** The outcome for each user. */
function Outcome({ results, ...bulk }: BulkProps & { results: Results }) {
  const { done } = ACTIONS[bulk.action];
  const count = plural([...results.values()].filter(({ ok }) => ok).length, 'user');
  return (
    <Dialog
      key="results"
      title={`${count} of ${bulk.users.length} ${done}`}
      onClose={() => close(bulk)}
      actions={<Button label="Done" class="primary" onClick={() => close(bulk)} />}
    >
      <Targets {...bulk} results={results} />
    </Dialog>
  );
}

/** The users concerned, and what has become of them. */
function Targets({ appId, action, users, results = null }: BulkProps & { results?: Results | null }) {
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
            cell: ({ authMethod, authValue, email }) => (
              <>
                <bdi>{authValue}</bdi>
                <span class="second-line">
                  <bdi>{authMethod}</bdi> {email !== authValue && <bdi>{email}</bdi>}
                </span>
              </>
            ),
          },
          {
            title: 'Result',
            cell: ({ id }) => {
              const result = results?.get(id);
              if (result?.ok) return <State is={ACTIONS[action].done} />;
              return result && <span class="bad">{result.message}</span>;
            },
          },
        ]}
      />
    </div>
  );
}
