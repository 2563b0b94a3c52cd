import type { ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useRef } from 'preact/hooks';
import type { Failure } from './graphql.js';
import { Problem } from './parts.js';

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  /** While work is under way, Escape does not close it. */
  readonly busy?: boolean;
  readonly children: ComponentChildren;
}

/** Where the focus goes first: the first input, a secret to copy, or the first button below, which is never the dangerous one. */
const FIRST = 'input, select, .secret-value button, .dialog-actions button';

/** A modal dialog, open as long as it is rendered. The browser keeps the focus in it and gives it back afterwards. */
export function Dialog({ title, onClose, busy = false, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useLayoutEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    shown?.querySelector<HTMLElement>(FIRST)?.focus();
    return () => shown?.close();
  }, []);
  const keepOpen = (event: Event) => {
    event.preventDefault();
    if (!busy) onClose();
  };
  return (
    <dialog ref={dialog} aria-labelledby={heading} onCancel={keepOpen}>
      <div class="dialog-header">
        <h2 id={heading}>{title}</h2>
        <button type="button" class="plain" aria-label="Close" disabled={busy} onClick={onClose}>
          ✕
        </button>
      </div>
      {children}
    </dialog>
  );
}

interface FormProps {
  readonly submit: string;
  readonly onSubmit: () => void;
  readonly onCancel: () => void;
  readonly busy: boolean;
  readonly failure: Failure | undefined;
  readonly danger?: boolean;
  readonly disabled?: boolean;
  readonly children?: ComponentChildren;
}

/** The form of a dialog: its fields, what went wrong, and two buttons. */
export function DialogForm({ submit, onSubmit, onCancel, busy, failure, danger, disabled, children }: FormProps) {
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (!busy && !disabled) onSubmit();
      }}
    >
      {children}
      <Problem failure={failure} />
      <div class="dialog-actions">
        <button type="button" disabled={busy} onClick={onCancel}>
          Cancel
        </button>
        <button type="submit" class={danger ? 'danger' : 'primary'} disabled={busy || disabled}>
          {busy ? 'Working…' : submit}
        </button>
      </div>
    </form>
  );
}
