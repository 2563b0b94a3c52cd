import type { Signal } from '@preact/signals';
import { type ComponentChildren, cloneElement, type VNode } from 'preact';
import { useId, useState } from 'preact/hooks';
import { METHOD_FORM } from '#dist/domain/auth-methods.js';
import { closeDialog, Dialog, type DialogProps, opened } from './dialog.js';
import { formatBucket } from './format.js';
import { type Failure, useAction } from './graphql.js';
import { FIRST_PAGE, useUrlState } from './location.js';
import { announce, Button, Menu, Problem } from './parts.js';
import { type Recipe, SameByApiDetails } from './recipes.js';

/** Forms: dialogs that change something, filters, and fields. */

export interface FormProps {
  readonly title: string;
  readonly submit: string;
  /** The way without the dashboard; an empty list if it is done here only. */
  readonly recipe: Recipe | readonly Recipe[];
  readonly danger?: boolean;
  readonly disabled?: boolean;
  /** The button that closes it. */
  readonly cancel?: string | undefined;
  readonly children: ComponentChildren;
}

interface DialogFormProps extends FormProps, Pick<DialogProps, 'unsaved'> {
  readonly onSubmit: () => void;
  readonly onClose?: () => void;
  readonly busy: boolean;
  readonly failure: Failure | undefined;
}

/** A dialog with a form: its fields, what went wrong, and two buttons. */
export function DialogForm(props: DialogFormProps) {
  const { title, submit, recipe, danger, disabled, onSubmit, onClose = closeDialog, busy, failure, unsaved } = props;
  return (
    <Dialog title={title} onClose={onClose} busy={busy} unsaved={unsaved}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (!busy && !disabled) onSubmit();
        }}
      >
        {props.children}
        {[recipe].flat().length > 0 && <SameByApiDetails recipe={recipe} />}
        <Problem failure={failure} />
        <div class="dialog-actions">
          <Button label={props.cancel ?? 'Cancel'} disabled={busy} onClick={onClose} />
          <button type="submit" class={danger ? 'danger' : 'primary'} disabled={busy || disabled}>
            {busy ? 'Working…' : submit}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

export interface FormDialogProps<Result> extends FormProps, Pick<DialogProps, 'unsaved'> {
  readonly work: () => Promise<Result>;
  readonly done?: string;
  /** Called once it is done, instead of closing it. */
  readonly onDone?: (result: Result) => void;
}

/** A dialog that asks, works and closes. It stays open, and says why, if the work fails. */
export function FormDialog<Result>({ work, done, onDone = closeDialog, ...form }: FormDialogProps<Result>) {
  const { run, ...state } = useAction(work);
  const onSubmit = async () => {
    const asking = opened.value;
    const result = await run();
    if (result === undefined) return;
    // Another screen may be shown by now, with a dialog of its own.
    if (opened.value === asking) onDone(result);
    if (done) announce(done);
  };
  return <DialogForm {...form} {...state} onSubmit={onSubmit} />;
}

interface UndoProps {
  readonly text: string;
  readonly undo: () => Promise<unknown>;
  readonly forget: () => void;
}

/** Says what was done, and offers to take it back. */
export function UndoOffer({ text, undo, forget }: UndoProps) {
  const { run, busy, failure } = useAction(undo);
  return (
    <>
      <Problem failure={failure} />
      <p class="banner offer" role="status">
        <span>{text}</span>
        <span>
          <Button label={busy ? 'Working…' : 'Undo'} disabled={busy} onClick={run} />{' '}
          <Button label="Dismiss" class="plain" onClick={forget} />
        </span>
      </p>
    </>
  );
}

interface FieldProps {
  readonly label: ComponentChildren;
  readonly hint?: ComponentChildren;
  readonly children: ComponentChildren;
}

/** An input with its label and a hint below it. */
export function Field({ label, hint, children }: FieldProps) {
  const id = useId();
  // Without this, the hint would be a part of the name.
  const names = { 'aria-labelledby': id, 'aria-describedby': `${id}-hint` };
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: the control is among the children
    <label class="field">
      <span id={id}>{label}</span>
      {hint ? cloneElement(children as VNode, names) : children}
      {hint && (
        <small id={`${id}-hint`} class="quiet">
          {hint}
        </small>
      )}
    </label>
  );
}

interface FilterFormProps {
  /** Of the parameters in the URL. */
  readonly names: readonly string[];
  readonly children?: ComponentChildren;
  /** What is asked for less often. */
  readonly more?: ComponentChildren;
}

/** Filters a list by its inputs, each at once. They take one line; on a phone they fold behind a button. */
export function FilterForm({ names, children, more }: FilterFormProps) {
  const { query, go } = useUrlState();
  const [isOpen, setOpen] = useState(false);
  const set = names.filter((name) => query[name]);
  const counted = (text: string) => (set.length > 0 ? `${text} · ${set.length}` : text);
  return (
    <form
      class={`filters folds ${isOpen ? 'open' : ''}`}
      aria-label="Filter"
      onSubmit={(event) => event.preventDefault()}
    >
      <button type="button" class="fold" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {counted('Filter')}
      </button>
      {children}
      {more && <Menu name={counted('Filters')}>{more}</Menu>}
      {set.length > 0 && (
        <Button
          label="Clear"
          of="the filter"
          class="plain clear"
          onClick={() => go({ ...FIRST_PAGE, ...Object.fromEntries(set.map((name) => [name, null])) })}
        />
      )}
    </form>
  );
}

interface FilterInputProps {
  readonly label: string;
  /** Of its parameter in the URL. */
  readonly name: string;
  readonly isDate?: boolean;
  readonly otherwise?: string;
}

/** An input of a filter: takes effect with Enter, or when it is left. */
export function FilterInput({ label, name, isDate = false, otherwise = '' }: FilterInputProps) {
  const { query, go } = useUrlState();
  const value = query[name] ?? otherwise;
  const input = (
    <input
      {...(isDate ? { type: 'date' } : { placeholder: 'then Enter' })}
      name={name}
      value={value}
      onChange={({ currentTarget }) => {
        const text = currentTarget.value.trim();
        if (text !== value) go({ ...FIRST_PAGE, [name]: text });
      }}
    />
  );
  return (
    <Field label={label}>
      {isDate ? (
        <span class="date" data-shown={shownDate(value)}>
          {input}
        </span>
      ) : (
        input
      )}
    </Field>
  );
}

/** Browsers write a date in their own form. While it is not typed, it has the form of all other dates. */
const shownDate = (date: string) => (Number.isNaN(Date.parse(date)) ? 'any day' : formatBucket(date, 'DAY'));

interface TextFieldProps extends Omit<FieldProps, 'children'> {
  readonly text: Signal<string>;
  readonly type?: 'text' | 'url' | 'number' | 'datetime-local';
  readonly required?: boolean;
  readonly maxLength?: number;
  /** For a text of several lines. */
  readonly rows?: number;
  readonly min?: number;
  readonly max?: number;
  /** The ID of a `<datalist>`. */
  readonly list?: string;
  /** As the API calls it. */
  readonly name?: string;
  /** The words for a value that the API refuses, instead of the API's own. */
  readonly title?: string;
}

/** An input for a text that its form holds. */
export function TextField({ label, hint, text, ...input }: TextFieldProps) {
  const Input = (input.rows ? 'textarea' : 'input') as 'input';
  return (
    <Field label={label} hint={hint}>
      <Input
        autocomplete="off"
        {...input}
        value={text.value}
        onInput={(event) => {
          text.value = event.currentTarget.value;
        }}
      />
    </Field>
  );
}

const AUTH_METHODS = ['email', 'passkey', 'wallet', 'google', 'apple', 'github'];

/** An input for a login method by its name in the API. */
export function AuthMethodField({ label, text }: Pick<TextFieldProps, 'label' | 'text'>) {
  return (
    <>
      <TextField label={label} hint={METHOD_FORM} text={text} name="authMethod" required list="auth-methods" />
      <datalist id="auth-methods">
        {AUTH_METHODS.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </>
  );
}

/** The two fields of an identity. */
export function IdentityFields({ method, value }: { readonly method: Signal<string>; readonly value: Signal<string> }) {
  return (
    <>
      <AuthMethodField label="Method" text={method} />
      <TextField
        label="Value"
        hint="the login email, the address, or the ID at the provider"
        text={value}
        name="authValue"
        required
      />
    </>
  );
}

interface SelectFieldProps<Value extends string> extends Omit<FieldProps, 'children'> {
  readonly value: Value;
  readonly options: readonly (readonly [value: Value, name: string, ...unknown[]])[];
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
  /** True to show the values behind their meanings. */
  readonly showsValues?: boolean;
  /** True if the meaning is a name of the API. */
  readonly isCode?: boolean;
  /** True if choosing one gives up the other. */
  readonly isOne?: boolean;
}

/** Some of several things, or one of them. */
export function Choices<Value extends string>(props: ChoicesProps<Value>) {
  const { legend, options, chosen, onChange, showsValues = false, isCode = false, isOne = false } = props;
  const toggle = (value: Value) => onChange(isOne ? [value] : toggled(chosen, value));
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

/** A choice with a value more, or without it if it was among them. */
export const toggled = <Value,>(chosen: readonly Value[], value: Value): Value[] =>
  chosen.includes(value) ? chosen.filter((one) => one !== value) : [...chosen, value];
