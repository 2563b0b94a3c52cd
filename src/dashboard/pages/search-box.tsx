import type { RefObject } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { useLocation } from 'preact-iso';
import { INPUT_LIMITS } from '#dist/domain/input-limits.js';
import { api, graphql, inProject, send, useAnswer } from './graphql.js';
import { paths, type UrlState } from './location.js';
import { SCREENS_OF_OPERATOR, screensOfProject, screensOfService, useCurrentProject } from './screen.js';
import { namesOf } from './user-table.js';

const TYPING_MS = 250;

/** Of an input with options that are no `<datalist>`. */
const combobox = (isExpanded: boolean) =>
  ({ role: 'combobox', list: undefined, 'aria-expanded': isExpanded, 'aria-controls': 'targets' }) as const;

const GO_TO = graphql(`
  query GoTo($text: String!, $appId: ID!, $inProjects: Boolean!, $inUsers: Boolean!) {
    projects(search: $text, first: 5) @include(if: $inProjects) { nodes { appId name } }
    project(appId: $appId) @include(if: $inUsers) { findUsers(any: $text) { id authValue loginMethod email } }
  }
`);

const BEGINNING = inProject(
  api(`query GoToUsers($text: String!) {
    usersByPrefix(prefix: $text, first: 5) { users { id authValue loginMethod email } }
  }`),
);

/** Where a text leads: screens whose names begin with it and, once it is typed, projects and users whom the list that is shown does not have. */
function useTargets(text: string | null, isTyped: boolean, shown: string): readonly Target[] {
  const project = useCurrentProject();
  const appId = project?.appId ?? '';
  const [inProjects, inUsers] = [shown !== paths.projects, project !== null && shown !== paths.project(appId, 'users')];
  const variables = text && isTyped ? { text, appId, inProjects, inUsers } : null;
  const { data } = useAnswer(
    variables && {
      key: `go to ${JSON.stringify(variables)}`,
      ask: (init) =>
        Promise.all([
          send(GO_TO, variables, init),
          inUsers ? send(BEGINNING, { project: appId, text: variables.text }, init) : null,
        ]),
    },
  );
  if (text === null) return [];
  const screens = [
    ...(project ? screensOfProject(project) : []),
    ['Projects', paths.projects] as const,
    ...screensOfService(),
    ...SCREENS_OF_OPERATOR,
  ].filter(([name]) => name.toLowerCase().startsWith(text.toLowerCase()));
  const [named, begun] = (text && isTyped && data) || [];
  const users = new Map(
    [...(named?.project?.findUsers ?? []), ...(begun?.usersByPrefix.users ?? [])].map((user) => [user.id, user]),
  );
  return [
    ...screens.map(([name, href]) => ({ name, href, kind: 'screen' })),
    ...(named?.projects?.nodes ?? []).map((one) => ({
      name: one.name,
      href: paths.project(one.appId),
      kind: 'project',
    })),
    ...[...users.values()]
      .slice(0, 5)
      .map((user) => ({ name: String(namesOf(user)[0]), href: paths.user(appId, user.id), kind: `user ${user.id}` })),
  ];
}

/**
 * The one search box. Within a project it lists users and elsewhere projects, while one types, and it leads to what a text names: arrows choose, Enter goes.
 * `/` opens it, Escape empties it.
 */
export function SearchBox() {
  const { path, query, route } = useLocation();
  const input = useRef<HTMLInputElement>(null);
  const waiting = useRef<ReturnType<typeof setTimeout>>(undefined);
  const [text, setText] = useState<string | null>(null);
  const [isTyped, setTyped] = useState(false);
  const [chosen, setChosen] = useState(-1);
  const project = useCurrentProject();
  const target = project ? paths.project(project.appId, 'users') : paths.projects;
  const isShown = path === target;
  const isAmongRemoved = isShown && (query as UrlState)['removed'] === '1';
  const asked = isShown ? ((query as UrlState)['q'] ?? '') : '';
  const targets = useTargets(text, isTyped, path);
  const value = () => input.current?.value.trim() ?? '';

  useEffect(() => {
    // A text that is being typed is newer than the address.
    if (input.current && (document.activeElement !== input.current || asked === '')) input.current.value = asked;
  }, [asked, target]);
  useFocusBySlash(input);

  const open = (isOpen: boolean) => {
    setText(isOpen ? value() : null);
    setTyped(false);
    setChosen(-1);
  };
  const search = (replace: boolean) => {
    clearTimeout(waiting.current);
    const words = value();
    if (isShown && words === asked) return;
    const state = new URLSearchParams({ ...(words && { q: words }), ...(isAmongRemoved && { removed: '1' }) });
    route(state.size > 0 ? `${target}?${state}` : target, replace);
  };
  const type = (event: Event) => {
    clearTimeout(waiting.current);
    open(true);
    // Removed users are found by a whole value, and all of them are read for it: by what is pasted at once, by what one types with Enter.
    const isLetter = event instanceof InputEvent && event.data?.length === 1;
    waiting.current = setTimeout(() => {
      setTyped(true);
      // The first letter is a step of its own for the back button; the next ones are the same step.
      if (isShown && !(isAmongRemoved && isLetter)) search(asked !== '');
    }, TYPING_MS);
  };
  const press = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      // One place is none of them: the text itself.
      setChosen(((chosen + 1 + step + targets.length + 1) % (targets.length + 1)) - 1);
    } else if (event.key === 'Escape' && input.current) {
      event.preventDefault();
      if (input.current.value === '') input.current.blur();
      input.current.value = '';
      open(false);
      if (isShown) search(true);
    }
  };
  const leave = () => {
    clearTimeout(waiting.current);
    if (input.current) input.current.value = '';
    input.current?.blur();
  };
  const label = project ? 'Search users' : 'Search projects';
  const hint = `${project ? 'ID, external ID, email, address, identity' : 'Project name or App ID'}${isShown ? '' : ' ⏎'}`;
  return (
    <search class="search">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const href = targets[chosen]?.href;
          if (href === undefined) {
            open(false);
            search(false);
          } else {
            leave();
            route(href);
          }
        }}
      >
        <input
          ref={input}
          type="search"
          {...combobox(targets.length > 0)}
          aria-label={`${label}, or go to a screen`}
          aria-activedescendant={targets[chosen] && `target-${chosen}`}
          placeholder={hint}
          aria-keyshortcuts="/"
          autocomplete="off"
          spellcheck={false}
          maxLength={INPUT_LIMITS.authValue.max}
          onFocus={() => open(true)}
          onBlur={() => open(false)}
          onInput={type}
          onKeyDown={press}
        />
        <kbd>/</kbd>
      </form>
      <TargetList targets={targets} chosen={chosen} onClick={leave} />
    </search>
  );
}

interface Target {
  readonly name: string;
  readonly href: string;
  readonly kind: string;
}

interface TargetListProps {
  readonly targets: readonly Target[];
  /** The place of the one that Enter would open; -1 for none. */
  readonly chosen: number;
  readonly onClick: () => void;
}

/** Where the text leads. The input keeps the focus. */
function TargetList({ targets, chosen, onClick }: TargetListProps) {
  return (
    <div id="targets" class="menu-items" role="listbox" aria-label="Go to" hidden={targets.length === 0}>
      {targets.map(({ name, href, kind }, index) => (
        <a
          key={href}
          id={`target-${index}`}
          role="option"
          aria-selected={index === chosen}
          tabIndex={-1}
          href={href}
          onMouseDown={(event) => event.preventDefault()}
          onClick={onClick}
        >
          <bdi>{name}</bdi> <span class="quiet">{kind}</span>
        </a>
      ))}
    </div>
  );
}

/** `/` goes to the input, unless one types elsewhere. */
function useFocusBySlash(input: RefObject<HTMLInputElement | null>): void {
  useEffect(() => {
    const focus = (event: KeyboardEvent) => {
      if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      event.preventDefault();
      input.current?.focus();
      input.current?.select();
    };
    addEventListener('keydown', focus);
    return () => removeEventListener('keydown', focus);
  }, []);
}

/** Inputs that take no letters. */
const CHOICES = ['checkbox', 'radio', 'file', 'button', 'submit'];

function isTyping(target: EventTarget | null): boolean {
  if (target instanceof HTMLInputElement) return !CHOICES.includes(target.type);
  return target instanceof HTMLElement && (target.isContentEditable || /^(TEXTAREA|SELECT)$/.test(target.tagName));
}
