import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { useLocation } from 'preact-iso';

/** The dialog that is open on the screen that is shown. */
export const opened = signal<ComponentChildren>(null);

/** Opens a dialog in the place of the one that is open. */
export function openDialog(dialog: ComponentChildren): void {
  opened.value = dialog;
}

export const closeDialog = (): void => openDialog(null);

/** Renders the open dialog, which closes with its screen. */
export function OpenedDialog() {
  const { path } = useLocation();
  useEffect(() => closeDialog, [path]);
  return <>{opened.value}</>;
}

export interface DialogProps {
  readonly title: string;
  /** Instead of `closeDialog`. */
  readonly onClose?: (() => void) | undefined;
  /** While work is under way, Escape does not close it. */
  readonly busy?: boolean;
  /** The entries that would be lost: Escape and ✕ say it once before they close the dialog, buttons do not. By default, any entry. */
  readonly unsaved?: string | false | undefined;
  readonly children: ComponentChildren;
  readonly actions?: ComponentChildren;
}

/** The first focus: the first input, a secret to copy, or the first button below, which is never the dangerous one. */
const FIRST = 'input, select, textarea, .secret-value button, .dialog-actions button';

/** A modal dialog, open as long as it is rendered. The browser keeps the focus in it and gives it back afterwards. */
export function Dialog({ title, onClose = closeDialog, busy = false, children, actions, ...props }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useLayoutEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    shown?.querySelector<HTMLElement>(FIRST)?.focus();
    return () => shown?.close();
  }, []);
  const [isEntered, setEntered] = useState(false);
  const { unsaved = isEntered && 'What you have entered is not saved.' } = props;
  const [isAsked, setAsked] = useState(false);
  const leave = () => (unsaved && !isAsked ? setAsked(true) : onClose());
  const keepOpen = (event: Event) => {
    event.preventDefault();
    if (!busy) leave();
  };
  return (
    <dialog ref={dialog} aria-labelledby={heading} onCancel={keepOpen} onInput={() => setEntered(true)}>
      <div class="dialog-header">
        <h2 id={heading}>{title}</h2>
        <button type="button" class="plain" aria-label="Close" disabled={busy} onClick={leave}>
          ✕
        </button>
      </div>
      {children}
      {isAsked && unsaved && (
        <p class="banner warn" role="alert">
          {unsaved} Close again to give it up.
        </p>
      )}
      {actions && <div class="dialog-actions">{actions}</div>}
    </dialog>
  );
}
