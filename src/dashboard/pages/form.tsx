import type { Signal } from '@preact/signals';
import { type ComponentChildren, Fragment } from 'preact';
import { useState } from 'preact/hooks';
import { Dialog, useClose } from './dialog.js';
import type { Failure } from './graphql.js';
import { announce, Button, Problem } from './parts.js';
import { useAction } from './query.js';
import { type Recipe, SameByApiDetails } from './recipes.js';

/** Forms: dialogs that change something, and fields. */

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
        <Button label="Cancel" disabled={busy} onClick={onCancel} />
        <button type="submit" class={danger ? 'danger' : 'primary'} disabled={busy || disabled}>
          {busy ? 'Working…' : submit}
        </button>
      </div>
    </form>
  );
}

interface FormDialogProps<Result> {
  readonly title: string;
  readonly submit: string;
  /** What it does, and the same without the dashboard. */
  readonly work: () => Promise<Result>;
  readonly recipe: Recipe;
  /** Announced once it is done. */
  readonly done?: string;
  /** Called once it is done, instead of closing it. */
  readonly onDone?: (result: Result) => void;
  /** A dialog that takes its place once it is done, with what cannot be shown again. */
  readonly after?: (result: Result) => ComponentChildren;
  readonly danger?: boolean;
  readonly disabled?: boolean;
  readonly children: ComponentChildren;
}

/** A dialog that asks, works and closes. It stays open, and says why, if the work fails. */
export function FormDialog<Result>(props: FormDialogProps<Result>) {
  const { title, submit, work, recipe, done, onDone, after, danger = false, disabled = false } = props;
  const close = useClose();
  const action = useAction(work);
  const [made, setMade] = useState<{ result: Result } | null>(null);
  const onSubmit = async () => {
    const result = await action.run();
    if (result === undefined) return;
    if (done) announce(done);
    if (after) setMade({ result });
    else if (onDone) onDone(result);
    else close();
  };
  // A key of its own: it is opened anew, so that the focus goes to what is to be copied.
  if (made) return <Fragment key="made">{after?.(made.result)}</Fragment>;
  return (
    <Dialog title={title} busy={action.busy}>
      <DialogForm
        submit={submit}
        onSubmit={onSubmit}
        onCancel={close}
        danger={danger}
        disabled={disabled}
        busy={action.busy}
        failure={action.failure}
      >
        {props.children}
        <SameByApiDetails recipe={recipe} />
      </DialogForm>
    </Dialog>
  );
}

interface FieldProps {
  readonly label: string;
  readonly hint?: ComponentChildren;
  readonly children: ComponentChildren;
}

/** An input with its label and a hint below it. */
export function Field({ label, hint, children }: FieldProps) {
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: the control is among the children
    <label class="field">
      <span>{label}</span>
      {children}
      {hint && <small class="quiet">{hint}</small>}
    </label>
  );
}

interface FilterInputProps {
  readonly label: string;
  readonly value: string;
  readonly isDate?: boolean;
  readonly onCommit: (value: string) => void;
}

/** An input of a filter: takes effect with Enter, or when it is left. */
export function FilterInput({ label, value, isDate = false, onCommit }: FilterInputProps) {
  const commit = (input: HTMLInputElement) => {
    if (input.value.trim() !== value) onCommit(input.value.trim());
  };
  return (
    <Field label={label}>
      {isDate ? (
        <input type="date" value={value} onChange={(event) => commit(event.currentTarget)} />
      ) : (
        <input value={value} placeholder="then Enter" onChange={(event) => commit(event.currentTarget)} />
      )}
    </Field>
  );
}

interface TextFieldProps {
  readonly label: string;
  readonly hint?: string;
  readonly text: Signal<string>;
  readonly type?: 'text' | 'url' | 'number';
  readonly required?: boolean;
  readonly maxLength?: number;
  readonly min?: number;
  readonly max?: number;
  /** The ID of a `<datalist>`. */
  readonly list?: string;
  readonly autocomplete?: 'off';
}

/** An input for a text that its form holds. */
export function TextField({ label, hint, text, ...input }: TextFieldProps) {
  return (
    <Field label={label} hint={hint}>
      <input
        {...input}
        value={text.value}
        onInput={(event) => {
          text.value = event.currentTarget.value;
        }}
      />
    </Field>
  );
}

interface SelectFieldProps<Value extends string> {
  readonly label: string;
  readonly hint?: string | undefined;
  readonly value: Value;
  /** Values and their names. */
  readonly options: readonly (readonly [value: Value, name: string])[];
  readonly onChange: (value: Value) => void;
}

export function SelectField<Value extends string>(props: SelectFieldProps<Value>) {
  const { label, hint, value, options, onChange } = props;
  return (
    <Field label={label} hint={hint}>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value as Value)}>
        {options.map(([one, name]) => (
          <option key={one} value={one}>
            {name}
          </option>
        ))}
      </select>
    </Field>
  );
}

interface ChoicesProps<Value extends string> {
  readonly legend: string;
  /** Values and what they mean. */
  readonly options: Readonly<Record<Value, ComponentChildren>>;
  readonly chosen: readonly Value[];
  readonly onChange: (chosen: Value[]) => void;
  /** Whether the values stand behind what they mean. */
  readonly showsValues?: boolean;
  /** Whether what they mean is a name of the API. */
  readonly isCode?: boolean;
  /** Whether choosing one gives up the other. */
  readonly isOne?: boolean;
}

/** Some of several things, or one of them. */
export function Choices<Value extends string>(props: ChoicesProps<Value>) {
  const { legend, options, chosen, onChange, showsValues = false, isCode = false, isOne = false } = props;
  const toggle = (value: Value) => {
    if (isOne) onChange([value]);
    else onChange(chosen.includes(value) ? chosen.filter((one) => one !== value) : [...chosen, value]);
  };
  return (
    <fieldset class="choices">
      <legend>{legend}</legend>
      {(Object.entries(options) as [Value, ComponentChildren][]).map(([value, what]) => (
        <label key={value}>
          <input
            type={isOne ? 'radio' : 'checkbox'}
            name={isOne ? legend : undefined}
            checked={chosen.includes(value)}
            onChange={() => toggle(value)}
          />{' '}
          {isCode ? <code>{what}</code> : what} {showsValues && <code>{value.toLowerCase()}</code>}
        </label>
      ))}
    </fieldset>
  );
}
