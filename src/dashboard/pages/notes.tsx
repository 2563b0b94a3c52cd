import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { FormDialog, TextArea } from './form.js';
import { formatDateTime } from './format.js';
import { graphql, may, me, type ResultOf, send } from './graphql.js';
import { Button, Time } from './parts.js';

/** What a screen asks of a user for the notes: all of them. */
export const NOTES = graphql(`fragment Notes on User { notes(first: 100) { id at actor note removable } }`);

const ADD = graphql(`
  mutation AddUserNote($appId: ID!, $userId: ID!, $note: String!) {
    addUserNote(appId: $appId, userId: $userId, note: $note) { id }
  }
`);

const REMOVE = graphql(`
  mutation RemoveUserNote($appId: ID!, $userId: ID!, $noteId: ID!) {
    removeUserNote(appId: $appId, userId: $userId, noteId: $noteId)
  }
`);

interface OfUser {
  readonly appId: string;
  readonly userId: string;
}

type Note = ResultOf<typeof NOTES>['notes'][number];

/** What operators have written of a user, newest first. */
export function Notes({ notes, ...of }: OfUser & { notes: readonly Note[] }) {
  return (
    <section>
      <div class="section-header">
        <h2>Notes</h2>
        {may('edit') && <Button label="Add note…" class="small" opens={<AddNote {...of} />} />}
      </div>
      {notes.length === 0 && <p class="quiet">No operator has written a note.</p>}
      <ul class="notes" aria-label="Notes">
        {notes.map((note) => (
          <li key={note.id}>
            <p class="quiet">
              <bdi>{note.actor}</bdi> <Time at={note.at} />
              {note.removable && (
                <Button
                  label="Remove note…"
                  class="small danger"
                  of={`of ${formatDateTime(note.at)}`}
                  opens={<RemoveNote {...of} note={note} />}
                />
              )}
            </p>
            <Text>{note.note}</Text>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** As it was written, with its lines. */
const Text = ({ children }: { children: string }) => (
  <p class="note-text" dir="auto">
    {children}
  </p>
);

function AddNote({ appId, userId }: OfUser) {
  const draft = `note ${me.value?.name} ${appId} ${userId}`;
  const note = useSignal(sessionStorage.getItem(draft) ?? '');
  useEffect(() => sessionStorage.setItem(draft, note.value), [note.value]);
  // What was typed is there again after a session that ended meanwhile. Else it is saved or given up when this closes.
  useEffect(() => () => void (me.value && sessionStorage.removeItem(draft)), []);
  return (
    <FormDialog
      title={`Add a note on user ${userId}`}
      submit="Add"
      work={() => send(ADD, { appId, userId, note: note.value })}
      recipe={{ userdir: ['user', 'note', '--project', appId, userId, '--add', note.value.trim() || 'TEXT'] }}
      done="The note is added."
      disabled={note.value.trim() === ''}
    >
      <TextArea
        label="Note"
        hint="All operators of the project read it. It stays when the user is removed, and is erased with the user."
        text={note}
        name="note"
        maxLength={2000}
      />
    </FormDialog>
  );
}

function RemoveNote({ appId, userId, note }: OfUser & { note: Note }) {
  return (
    <FormDialog
      title="Remove this note?"
      submit="Remove"
      danger
      work={() => send(REMOVE, { appId, userId, noteId: note.id })}
      recipe={{ userdir: ['user', 'note', '--project', appId, userId, '--remove', note.id] }}
      done="The note is removed."
    >
      <Text>{note.note}</Text>
      <p>This cannot be undone.</p>
    </FormDialog>
  );
}
