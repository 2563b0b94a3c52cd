import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { INPUT_LIMITS } from '#dist/domain/input-limits.js';
import { openDialog } from './dialog.js';
import { FormDialog, TextField } from './form.js';
import { graphql, may, me, type ResultOf, useAction, useQuery } from './graphql.js';
import { queryOr } from './operators.js';
import { Button, Empty, Time, Value } from './parts.js';
import { beginPasskey, config, hasPasskeys, loadConfig, makePasskey, PasskeysElsewhere } from './passkey-ceremonies.js';
import { command, sending } from './recipes.js';
import { ListScreen } from './screen.js';

const PASSKEYS = graphql(`query Passkeys { passkeys { id operator name host createdAt lastUsedAt } }`);
const REMOVE = graphql(`mutation RemovePasskey($id: ID!) { removePasskey(id: $id) { id } }`);

type Passkey = ResultOf<typeof PASSKEYS>['passkeys'][number];

/** The passkeys of the operator; for an admin, of all. */
export function Passkeys() {
  const query = useQuery(PASSKEYS, {});
  useEffect(() => void loadConfig(), []);
  const isOfAll = may('govern');
  // An operator who may add none is told before anything is asked.
  const adding = useAction(async () => {
    await beginPasskey();
    openDialog(<AddPasskey />);
  });
  return (
    <ListScreen
      title={isOfAll ? 'Passkeys' : 'Your passkeys'}
      note={
        isOfAll
          ? 'With a passkey, an operator signs in without a link. These are those of all operators.'
          : 'With a passkey, you sign in without a link.'
      }
      recipe={{ userdir: command('operator passkeys', {}) }}
      offers={
        hasPasskeys() && <Button label="Add passkey" class="primary" disabled={adding.busy} onClick={adding.run} />
      }
      filter={config.value.passkeys ? <PasskeysElsewhere /> : <NoPlace />}
      {...queryOr(query, adding)}
      found={query.data?.passkeys}
      lines={3}
      rowKey={({ id }) => id}
      empty={<Empty title="There is no passkey yet." />}
      columns={[
        { title: 'Name', class: 'main-cell', cell: ({ name }) => <Value>{name}</Value> },
        isOfAll && {
          title: 'Operator',
          class: 'names',
          cell: ({ operator }) => (
            <>
              <bdi>{operator}</bdi> {operator === me.value?.name && <span class="quiet">(you)</span>}
            </>
          ),
        },
        { title: 'Works at', class: 'host', cell: ({ host }) => <Value>{host}</Value> },
        { title: 'Added', class: 'nowrap', cell: ({ createdAt }) => <Time at={createdAt} /> },
        { title: 'Last used', class: 'nowrap', cell: ({ lastUsedAt }) => <Time at={lastUsedAt} /> },
      ]}
      actions={(passkey) => (
        <Button label="Remove…" of={passkey.name} class="small danger" opens={<RemovePasskey {...passkey} />} />
      )}
    />
  );
}

const NoPlace = () => (
  <p class="quiet">
    Passkeys need the name of a host: such as https://users.example.com in <code>PUBLIC_URL</code>, or{' '}
    <code>localhost</code> on the port of the service.
  </p>
);

function AddPasskey() {
  const name = useSignal('');
  return (
    <FormDialog
      title="Add passkey"
      submit="Add"
      work={() => makePasskey(name.value.trim())}
      recipe={[]}
      done="The passkey is added."
      disabled={name.value.trim() === ''}
    >
      <TextField
        label="Name"
        hint="Where it is kept, such as “laptop” or “security key”. The browser then asks for the rest."
        text={name}
        name="name"
        required
        maxLength={INPUT_LIMITS.passkeyName.max}
      />
    </FormDialog>
  );
}

function RemovePasskey({ id, name, operator }: Passkey) {
  return (
    <FormDialog
      title="Remove this passkey?"
      submit="Remove"
      danger
      {...sending(REMOVE, { id }, command('operator remove-passkey', { passkeyId: id }))}
      done="The passkey is removed."
    >
      <p class="long">
        <bdi>{operator}</bdi> can no longer sign in with the passkey <Value>{name}</Value>. The sessions that it has
        begun end at once. Remove it on the device, too.
      </p>
    </FormDialog>
  );
}
