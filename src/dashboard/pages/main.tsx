import './style.css';
import { type ComponentChildren, render } from 'preact';
import { useState } from 'preact/hooks';
import { ErrorBoundary, LocationProvider, Route, Router, useLocation } from 'preact-iso';
import { Audit } from './audit.js';
import { Bans } from './bans.js';
import { paths, ROUTED } from './location.js';
import { Operators, Sessions } from './operators.js';
import { Overview } from './overview.js';
import { Empty, Header } from './parts.js';
import { ProjectFrame } from './project-frame.js';
import { Projects } from './projects.js';
import { Secrets } from './secrets.js';
import { me } from './session.js';
import { Settings } from './settings.js';
import { Shell } from './shell.js';
import { SignIn, startSession } from './sign-in.js';
import { Status } from './status.js';
import './theme.js';
import { User } from './user.js';
import { Users } from './users.js';
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

const screens = {
  overview: inProject(Overview),
  users: inProject(Users),
  user: inProject(User),
  secrets: inProject(Secrets),
  bans: inProject(Bans),
  webhooks: inProject(Webhooks),
  audit: inProject(Audit),
  settings: inProject(Settings),
};

function Unknown() {
  return (
    <>
      <Header title="No such page" />
      <Empty title="Nothing is at this address.">
        <a href={paths.projects}>Go to the projects</a>
      </Empty>
    </>
  );
}

/** The focus follows to the new screen, so that a screen reader goes on there; not while one types into the search. */
function focusScreen(): void {
  if (!(document.activeElement instanceof HTMLInputElement))
    document.getElementById('main')?.focus({ preventScroll: true });
}

function Screens() {
  const { url } = useLocation();
  const [broken, setBroken] = useState<string | null>(null);
  if (broken === url) return <Unknown />;
  return (
    <ErrorBoundary onError={() => setBroken(url)}>
      <Router onRouteChange={focusScreen}>
        <Route path="/dashboard" component={Projects} />
        <Route path="/dashboard/operators" component={Operators} />
        <Route path="/dashboard/sessions" component={Sessions} />
        <Route path="/dashboard/status" component={Status} />
        <Route path="/dashboard/:appId" component={screens.overview} />
        <Route path="/dashboard/:appId/users" component={screens.users} />
        <Route path="/dashboard/:appId/users/:id" component={screens.user} />
        <Route path="/dashboard/:appId/secrets" component={screens.secrets} />
        <Route path="/dashboard/:appId/bans" component={screens.bans} />
        <Route path="/dashboard/:appId/webhooks" component={screens.webhooks} />
        <Route path="/dashboard/:appId/audit" component={screens.audit} />
        <Route path="/dashboard/:appId/settings" component={screens.settings} />
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
