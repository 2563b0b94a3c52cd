import { signal } from '@preact/signals';
import type { ButtonHTMLAttributes, ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { openDialog } from './dialog.js';
import { formatDateTime, formatDay, formatZoned, type LoginMethod, METHOD_NAMES } from './format.js';
import { type Failure, refresh } from './graphql.js';

/** The small parts that every screen is made of. */

/** The last event, for the status line and for screen readers. */
export const announcement = signal('');
let fading: ReturnType<typeof setTimeout> | undefined;

const say = (text: string) => () => {
  announcement.value = text;
};

/** Announcements end with their screen. */
export const leaveScreen = say('');

/** Said after the change of the screen that it may bring. */
export function announce(text: string): void {
  setTimeout(say(text));
  clearTimeout(fading);
  fading = setTimeout(leaveScreen, 6000);
}

/** A text that users or other people chose: isolated, so that marks of direction in it do not turn the page around. */
export function Value({ children, mono = false }: { children: string; mono?: boolean }) {
  return <bdi class={mono ? 'value mono' : 'value'}>{children}</bdi>;
}

/** The colour of a login method. */
export function Swatch({ method, titled = false }: { method: LoginMethod; titled?: boolean }) {
  return <i class={`swatch ${method.toLowerCase()}`} title={titled ? METHOD_NAMES[method] : undefined} />;
}

interface TimeProps {
  readonly at: string | null | undefined;
  readonly dayOnly?: boolean;
  /** True to show the seconds. */
  readonly isExact?: boolean;
}

export function Time({ at, dayOnly = false, isExact }: TimeProps) {
  if (!at) return <span class="quiet">never</span>;
  return (
    <time dateTime={at} title={formatZoned(at)}>
      {dayOnly ? formatDay(at) : formatDateTime(at, isExact)}
    </time>
  );
}

interface CopyProps {
  readonly text: string;
  /** Completes "Copy …" for screen readers. */
  readonly what: string;
  readonly onCopied?: (() => void) | undefined;
}

/** Copies a text, and says that it did. */
export function Copy({ text, what, onCopied }: CopyProps) {
  const [state, setState] = useState<'Copy' | 'Copied' | 'Failed'>('Copy');
  const copy = async () => {
    const done = await navigator.clipboard?.writeText(text).then(
      () => true,
      () => false,
    );
    setState(done ? 'Copied' : 'Failed');
    if (done) onCopied?.();
    announce(done ? `Copied ${what}.` : 'The browser does not allow copying here. Select the text instead.');
  };
  return (
    <button type="button" class="small" onClick={copy} onBlur={() => setState('Copy')} aria-label={`${state} ${what}`}>
      {state}
    </button>
  );
}

/** A name or secret of the service, and a button that copies it. */
export function CopyCode(props: CopyProps) {
  return (
    <>
      <code>{props.text}</code> <Copy {...props} />
    </>
  );
}

/** A text that other people chose, and a button that copies it. */
export function CopyValue({ mono = false, ...props }: CopyProps & { mono?: boolean }) {
  return (
    <>
      <Value mono={mono}>{props.text}</Value> <Copy {...props} />
    </>
  );
}

/** A text to copy as a whole, under its name. */
export function CopyBlock({ name, ...props }: CopyProps & { name: string }) {
  return (
    <figure class="recipe">
      <figcaption>
        {name} <Copy {...props} />
      </figcaption>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable by keyboard */}
      <pre tabIndex={0}>{props.text}</pre>
    </figure>
  );
}

interface ButtonProps extends Pick<ButtonHTMLAttributes, 'class' | 'disabled'> {
  readonly label: ComponentChildren;
  /** An addition to its name for screen readers, where it is one of several of its kind. */
  readonly of?: string;
  readonly opens?: ComponentChildren;
  readonly onClick?: () => void;
}

/** A button that submits no form. */
export function Button({ label, of, opens, onClick = () => openDialog(opens), ...props }: ButtonProps) {
  return (
    <button type="button" {...props} onClick={onClick} aria-label={of && `${label} ${of}`}>
      {label}
    </button>
  );
}

export function Badge({ tone = 'plain', children }: { tone?: 'plain' | 'good' | 'warn' | 'bad'; children: string }) {
  return <span class={`badge ${tone}`}>{children}</span>;
}

const STATES = { banned: 'bad', removed: 'warn', restored: 'good', unbanned: 'good' } as const;

/** The state of a user or of an identity, in its colour. */
export function State({ is }: { is: keyof typeof STATES }) {
  return <Badge tone={STATES[is]}>{is}</Badge>;
}

const ADVICE: Record<string, string> = {
  FORBIDDEN: 'Your role does not allow this. An operator with the role admin can do it, or can change your role.',
  NOT_FOUND: 'It may have been removed in the meantime. Go back to the list and look again.',
  RATE_LIMITED: 'Wait a minute, then try again.',
  UNAVAILABLE: 'Try again in a moment.',
  REQUEST_TIMEOUT: 'The service is busy. Try again in a moment, or with a smaller range.',
  UNREACHABLE: 'Nothing is lost.',
  INTERNAL_SERVER_ERROR: 'The log of the service says more. Try again in a moment.',
};

/** The advice on a failure, unless the message has it. */
const adviceOn = ({ code, message }: Failure) =>
  /\b(again|first|instead|another)\b/.test(message) ? '' : ADVICE[code];

/** The input that a refusal is about, and what to say at it: by its label, where the API has a name of its own. */
function fieldOf(failure: Failure | undefined) {
  if (!failure) return;
  const { argument, message } = failure;
  const [, named, accepted] = /^(\w+): got .*, expected (.*)\.$/s.exec(message) ?? [];
  const name = argument?.split('.').at(-1) ?? named;
  const input = /^\w+$/.test(name ?? '') && document.querySelector<HTMLInputElement>(`form [name=${name}]`);
  if (!input || accepted === undefined) return input && { input, words: message };
  return { input, words: input.title || `${input.labels?.[0]?.firstChild?.textContent} must be ${accepted}.` };
}

/** Why something was refused or failed, and what to do about it. */
export function Problem({ failure, retry = false }: { failure: Failure | undefined; retry?: boolean }) {
  const box = useRef<HTMLDivElement>(null);
  const isUnreachable = retry && failure?.code === 'UNREACHABLE';
  const field = fieldOf(failure);
  useEffect(() => {
    // It stands above a list; the one who asked for the next page is at its end.
    if (box.current) box.current.hidden = false;
    box.current?.scrollIntoView({ block: 'nearest' });
    if (field) {
      const { input, words } = field;
      input.setCustomValidity(words);
      input.reportValidity();
      const correct = () => {
        input.setCustomValidity('');
        if (box.current) box.current.hidden = true;
      };
      input.addEventListener('input', correct, { once: true });
    } else if (document.activeElement === document.body) box.current?.focus();
  }, [failure]);
  useEffect(() => (isUnreachable ? refreshWhenBack() : undefined), [isUnreachable]);
  if (!failure) return null;
  const advice = isUnreachable ? 'Nothing is lost. The page goes on by itself as soon as it can.' : adviceOn(failure);
  return (
    <div class="problem" role="alert" ref={box} tabIndex={-1}>
      <p>
        <strong>{field ? field.words : failure.message}</strong> {advice}
      </p>
      {retry && failure.code !== 'BAD_USER_INPUT' && <Button label="Try again" onClick={refresh} />}
    </div>
  );
}

/** Asks quietly whether the service answers again. */
const refreshWhenBack = () =>
  every(3000, async () => {
    const isBack = await fetch('/readyz').then(
      ({ status }) => status < 500,
      () => false,
    );
    if (isBack) refresh();
  });

/** Does something again and again, until what it returns is called. */
export function every(milliseconds: number, work: () => void): () => void {
  const timer = setInterval(work, milliseconds);
  return () => clearInterval(timer);
}

/** An empty list, with the next step. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children && <div class="quiet">{children}</div>}
    </div>
  );
}

/** Grey lines of about the size of what will be there, so that the page does not jump. */
export function Loading({ lines = 6 }: { lines?: number }) {
  return (
    <div class="loading" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, index) => (
        <span key={index} />
      ))}
    </div>
  );
}

/** One fact in a `<dl class="facts">`. */
export function Fact({ name, class: of, children }: { name: string; class?: string; children: ComponentChildren }) {
  return (
    <>
      <dt>{name}</dt>
      <dd class={of}>{children}</dd>
    </>
  );
}

interface Segment {
  readonly name: string;
  readonly href: string;
  readonly isChosen: boolean;
  readonly title?: string;
}

/** Links of which one is chosen. */
export function Segments({ links }: { links: readonly Segment[] }) {
  return (
    <div class="segments">
      {links.map(({ name, href, isChosen, title }) => (
        <a key={name} href={href} aria-current={isChosen ? 'true' : undefined} title={title}>
          {name}
        </a>
      ))}
    </div>
  );
}

/** A button that opens what is below it. It closes with Escape, a click elsewhere, and when what it offers is chosen. */
export function Menu({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <details class="menu">
      <summary class="button">{name}</summary>
      <div class="menu-items">{children}</div>
    </details>
  );
}

interface DownloadMenuProps {
  readonly path: string;
  /** Null and undefined ones are left out. */
  readonly parameters: Record<string, string | null | undefined>;
  readonly note: string;
  /** Formats beside CSV and NDJSON, with what they are for. */
  readonly others?: Readonly<Record<string, string>>;
}

/** Downloads of what a screen lists, in each format. */
export function DownloadMenu({ path, parameters, note, others = {} }: DownloadMenuProps) {
  const formats = { csv: 'CSV, for spreadsheets', ndjson: 'NDJSON', ...others };
  const set = Object.entries(parameters).flatMap(([name, value]) => (value ? [[name, value]] : []));
  const link = (format: string) => `${path}?${new URLSearchParams([['format', format], ...set])}`;
  return (
    <Menu name="Export">
      <p class="quiet">{note}</p>
      {Object.entries(formats).map(([format, text]) => (
        <a key={format} href={link(format)} download>
          {text}
        </a>
      ))}
    </Menu>
  );
}
