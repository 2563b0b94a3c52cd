import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { useLocation } from 'preact-iso';
import { OpenedDialog } from './dialog.js';
import { ZONE } from './format.js';
import { graphql, may, me, send } from './graphql.js';
import { paths } from './location.js';
import { announcement, Button, leaveScreen } from './parts.js';
import { SCREENS_OF_OPERATOR, screensOfProject, screensOfService, useCurrentProject } from './screen.js';
import { SearchBox } from './search-box.js';

const LOG_OUT = graphql(`mutation LogOut { logOut }`);

/** The frame of every screen: search, navigation, the operator, and the last event. */
export function Shell({ children }: { children: ComponentChildren }) {
  return (
    <div class="shell">
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <header class="bar">
        <button type="button" class="plain menu-button" popovertarget="navigation">
          <span aria-hidden="true">☰</span> Menu
        </button>
        <a class="brand" href={paths.projects}>
          userdir
        </a>
        <SearchBox />
        <Account />
      </header>
      <Navigation />
      <main id="main" tabIndex={-1}>
        <ProjectName />
        {children}
        <OpenedDialog />
      </main>
      <div class="announcement" role="status" aria-live="polite">
        {announcement.value}
      </div>
    </div>
  );
}

/** On a phone, where the navigation has no room for it. */
function ProjectName() {
  const { path } = useLocation();
  const project = useCurrentProject();
  if (!project || path === paths.project(project.appId)) return null;
  return (
    <p class="project-name quiet">
      <bdi>{project.name}</bdi>
    </p>
  );
}

function Account() {
  const { path } = useLocation();
  const logOut = async () => {
    await send(LOG_OUT, {}).catch(() => undefined);
    me.value = null;
  };
  // Made anew with each path, so that following a link closes it.
  return (
    <details class="menu" key={path}>
      <summary>
        <bdi>{me.value?.name ?? ''}</bdi>
      </summary>
      <div class="menu-items">
        <p class="quiet">
          Signed in as {me.value?.role.toLowerCase()}
          {!may('oversee') && ' of some projects'}
          <br />
          userdir {me.value?.version}
        </p>
        {SCREENS_OF_OPERATOR.map(([name, href]) => (
          <a key={name} href={href}>
            {name}
          </a>
        ))}
        <Button label="Sign out" class="plain" onClick={logOut} />
      </div>
    </details>
  );
}

function Navigation() {
  const { path } = useLocation();
  const project = useCurrentProject();
  const side = useRef<HTMLElement>(null);
  useEffect(() => closeMenusOnEscape(), []);
  // On a phone it is a menu, which closes when what it offers is chosen.
  useEffect(() => side.current?.hidePopover?.(), [path]);
  useLayoutEffect(leaveScreen, [path]);
  const link = (href: string, name: string, isBranch = false) => (
    <a
      key={href}
      href={href}
      aria-current={path === href || (isBranch && path.startsWith(`${href}/`)) ? 'page' : undefined}
    >
      {name}
    </a>
  );
  return (
    <nav class="side" id="navigation" popover="auto" aria-label="Main" ref={side}>
      {link(paths.projects, 'Projects')}
      {project && (
        <div class="side-project">
          <p class="side-title" title={project.name}>
            <bdi>{project.name}</bdi>
          </p>
          {screensOfProject(project).map(([name, href]) => link(href, name, name !== 'Overview'))}
        </div>
      )}
      <div class="side-service">
        {screensOfService().map(([name, href]) => link(href, name))}
        <p class="zone quiet">Times: {ZONE}</p>
      </div>
    </nav>
  );
}

const isOffer = (target: EventTarget | null) => target instanceof Element && target.closest('a, button') !== null;

/** Menus close with Escape, with a click elsewhere, and when what they offer is chosen. */
function closeMenusOnEscape(): () => void {
  const close = (event: Event) => {
    if (event instanceof KeyboardEvent && event.key !== 'Escape') return;
    for (const menu of document.querySelectorAll<HTMLDetailsElement>('details.menu[open]')) {
      if (event.type === 'click' && menu.contains(event.target as Node) && !isOffer(event.target)) continue;
      // A hidden menu cannot keep the focus.
      const hasFocus = event.type === 'keydown' || menu.contains(document.activeElement);
      menu.open = false;
      if (hasFocus) menu.querySelector('summary')?.focus();
    }
  };
  addEventListener('keydown', close);
  addEventListener('click', close);
  return () => {
    removeEventListener('keydown', close);
    removeEventListener('click', close);
  };
}
