import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useLayoutEffect, useRef } from 'preact/hooks';
import { useLocation } from 'preact-iso';

/** The dialog that is open on the screen that is shown. */
export const opened = signal<ComponentChildren>(null);

/** Opens a dialog in the place of the one that is open. */
export function openDialog(dialog: ComponentChildren): void {
  opened.value = dialog;
}

export const closeDialog = (): void => openDialog(null);

/** Where it is rendered. It closes with its screen. */
export function OpenedDialog() {
  const { path } = useLocation();
  useEffect(() => closeDialog, [path]);
  return <>{opened.value}</>;
}

interface DialogProps {
  readonly title: string;
  /** Instead of `closeDialog`. */
  readonly onClose?: (() => void) | undefined;
  /** While work is under way, Escape does not close it. */
  readonly busy?: boolean;
  readonly children: ComponentChildren;
  readonly actions?: ComponentChildren;
}

/** Where the focus goes first: the first input, a secret to copy, or the first button below, which is never the dangerous one. */
const FIRST = 'input, select, textarea, .secret-value button, .dialog-actions button';

/** A modal dialog, open as long as it is rendered. The browser keeps the focus in it and gives it back afterwards. */
export function Dialog({ title, onClose = closeDialog, busy = false, children, actions }: DialogProps) {
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
      {actions && <div class="dialog-actions">{actions}</div>}
    </dialog>
  );
}
