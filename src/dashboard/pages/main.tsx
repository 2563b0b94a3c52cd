import './style.css';
import { type ComponentChildren, render } from 'preact';
import { useState } from 'preact/hooks';
import { ErrorBoundary, LocationProvider, Route, Router, useLocation } from 'preact-iso';
import { Audit } from './audit.js';
import { Bans } from './bans.js';
import { me } from './graphql.js';
import { paths, ROUTED } from './location.js';
import { Operators, Sessions } from './operators.js';
import { Overview } from './overview.js';
import { Passkeys } from './passkeys.js';
import { Projects } from './projects.js';
import { Missing, ProjectFrame } from './screen.js';
import { Secrets } from './secrets.js';
import { Settings } from './settings.js';
import { Shell } from './shell.js';
import { SignIn, startSession } from './sign-in.js';
import { Status } from './status.js';
import { User } from './user.js';
import { Users } from './users.js';
import { Webhook } from './webhook.js';
import { Webhooks } from './webhooks.js';

/** A screen inside of a project, made anew for another project. */
const inProject = (Screen: (props: { appId: string; id: string }) => ComponentChildren) =>
  function ScreenOfProject({ params }: { params: Record<string, string> }) {
    const appId = params['appId'] ?? '';
    const id = params['id'] ?? '';
    return (
      <ProjectFrame key={appId} appId={appId}>
        <Screen key={`${appId}/${id}`} appId={appId} id={id} />
      </ProjectFrame>
    );
  };

const SCREENS = {
  '/dashboard': Projects,
  '/dashboard/operators': Operators,
  '/dashboard/sessions': Sessions,
  '/dashboard/passkeys': Passkeys,
  '/dashboard/status': Status,
  '/dashboard/:appId': inProject(Overview),
  '/dashboard/:appId/users': inProject(Users),
  '/dashboard/:appId/users/:id': inProject(User),
  '/dashboard/:appId/secrets': inProject(Secrets),
  '/dashboard/:appId/bans': inProject(Bans),
  '/dashboard/:appId/webhooks': inProject(Webhooks),
  '/dashboard/:appId/webhooks/:id': inProject(Webhook),
  '/dashboard/:appId/audit': inProject(Audit),
  '/dashboard/:appId/settings': inProject(Settings),
};

const Unknown = () => (
  <Missing title="No such page" says="Nothing is at this address.">
    <a href={paths.projects}>Go to the projects</a>
  </Missing>
);

/** The focus follows to the new screen, so that a screen reader goes on there; not while one types into the search. */
function focusScreen(): void {
  if (!(document.activeElement instanceof HTMLInputElement))
    document.getElementById('main')?.focus({ preventScroll: true });
}

let focused: Element | null = null;
for (const type of ['focusin', 'click', 'keydown'])
  addEventListener(
    type,
    () => {
      focused = document.activeElement;
    },
    true,
  );
// When the focused element goes away, such as the opener of a dialog, the heading of the screen gets the focus.
new MutationObserver(() => {
  if (focused?.isConnected === false && document.activeElement === document.body)
    document.querySelector('h1')?.focus({ preventScroll: true });
}).observe(document.body, { childList: true, subtree: true });

function Screens() {
  const { url } = useLocation();
  const [broken, setBroken] = useState<string | null>(null);
  if (broken === url) return <Unknown />;
  return (
    <ErrorBoundary onError={() => setBroken(url)}>
      <Router onRouteChange={focusScreen}>
        {Object.entries(SCREENS).map(([path, Screen]) => (
          <Route key={path} path={path} component={Screen} />
        ))}
        <Route default component={Unknown} />
      </Router>
    </ErrorBoundary>
  );
}

function Dashboard() {
  if (!me.value) return <SignIn />;
  return (
    <LocationProvider scope={ROUTED}>
      <Shell>
        <Screens />
      </Shell>
    </LocationProvider>
  );
}

await startSession();
const root = document.getElementById('app');
// Preact would leave the text that stood there while this loaded.
root?.replaceChildren();
if (root) render(<Dashboard />, root);
