import { type ComponentChildren, createContext } from 'preact';
import { useContext, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';

interface DialogProps {
  readonly title: string;
  /** Instead of closing it, where one opened it with `useDialog`. */
  readonly onClose?: () => void;
  /** While work is under way, Escape does not close it. */
  readonly busy?: boolean;
  readonly children: ComponentChildren;
}

/** Where the focus goes first: the first input, a secret to copy, or the first button below, which is never the dangerous one. */
const FIRST = 'input, select, .secret-value button, .dialog-actions button';

/** A modal dialog, open as long as it is rendered. The browser keeps the focus in it and gives it back afterwards. */
export function Dialog({ title, onClose, busy = false, children }: DialogProps) {
  const close = useClose();
  const leave = onClose ?? close;
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
    if (!busy) leave();
  };
  return (
    <dialog ref={dialog} aria-labelledby={heading} onCancel={keepOpen}>
      <div class="dialog-header">
        <h2 id={heading}>{title}</h2>
        <button type="button" class="plain" aria-label="Close" disabled={busy} onClick={leave}>
          ✕
        </button>
      </div>
      {children}
    </dialog>
  );
}

const Close = createContext(() => {});

/** Closes the dialog in which it is called. */
export const useClose = () => useContext(Close);

/** The one dialog that a screen has open, to be rendered at its end, and what opens another one in its place. */
export function useDialog(): [ComponentChildren, (dialog: ComponentChildren) => void] {
  const [shown, setShown] = useState<ComponentChildren>(null);
  return [shown && <Close.Provider value={() => setShown(null)}>{shown}</Close.Provider>, setShown];
}

/** The button at the end of a dialog that has nothing more to do. */
export function CloseButton({ class: name = 'primary', children }: { class?: string; children: string }) {
  return (
    <button type="button" class={name} onClick={useClose()}>
      {children}
    </button>
  );
}
