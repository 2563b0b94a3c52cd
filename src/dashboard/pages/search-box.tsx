import { useEffect, useRef } from 'preact/hooks';
import { useLocation } from 'preact-iso';
import { paths, type UrlState } from './location.js';
import { useCurrentProject } from './screen.js';

const TYPING_MS = 250;

/** The one search box: for users within a project, for projects elsewhere, while one types. `/` leads into the box, Escape empties it. */
export function SearchBox() {
  const { path, query, route } = useLocation();
  const input = useRef<HTMLInputElement>(null);
  const waiting = useRef<ReturnType<typeof setTimeout>>(undefined);
  const project = useCurrentProject();
  const target = project ? paths.project(project.appId, 'users') : paths.projects;
  const isShown = path === target;
  const isAmongRemoved = isShown && (query as UrlState)['removed'] === '1';
  const asked = isShown ? ((query as UrlState)['q'] ?? '') : '';

  useEffect(() => {
    // A text that is being typed is newer than the address.
    if (input.current && (document.activeElement !== input.current || asked === '')) input.current.value = asked;
  }, [asked, target]);
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

  const search = (replace: boolean) => {
    clearTimeout(waiting.current);
    const text = input.current?.value.trim() ?? '';
    if (isShown && text === asked) return;
    const state = new URLSearchParams({ ...(text && { q: text }), ...(isAmongRemoved && { removed: '1' }) });
    route(state.size > 0 ? `${target}?${state}` : target, replace);
  };
  const type = (event: Event) => {
    clearTimeout(waiting.current);
    // Removed users are found by a whole value, and all of them are read for it: by what is pasted at once, by what one types with Enter.
    const isLetter = event instanceof InputEvent && event.data?.length === 1;
    if (!isShown || (isAmongRemoved && isLetter)) return;
    // The first letter is a step of its own for the back button; the next ones are the same step.
    waiting.current = setTimeout(() => search(asked !== ''), TYPING_MS);
  };
  const label = project ? 'Search users' : 'Search projects';
  const hint = `${project ? 'ID, external ID, email, address, identity' : 'Project name or App ID'}${isShown ? '' : ' ⏎'}`;
  return (
    <search class="search">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          search(false);
        }}
      >
        <input
          ref={input}
          type="search"
          aria-label={label}
          placeholder={hint}
          aria-keyshortcuts="/"
          autocomplete="off"
          spellcheck={false}
          maxLength={1500}
          onInput={type}
          onKeyDown={(event) => {
            if (event.key !== 'Escape' || !input.current) return;
            event.preventDefault();
            if (input.current.value === '') input.current.blur();
            input.current.value = '';
            if (isShown) search(true);
          }}
        />
        <kbd>/</kbd>
      </form>
    </search>
  );
}

const isTyping = (target: EventTarget | null) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
