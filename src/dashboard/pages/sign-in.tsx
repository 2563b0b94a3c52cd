import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { asFailure, Failure, failureOf, hasEnded, ME, me, post, send } from './graphql.js';
import { Button, every, Loading, Problem } from './parts.js';
import { config, hasPasskeys, loadConfig, PasskeysElsewhere, signInByPasskey } from './passkey-ceremonies.js';

/** The screen after a sign-in that leaves the page. */
const RETURN_TO = 'userdir-return-to';

const failure = signal<Failure | undefined>(undefined);

/** The fragment of a login link, before its token. */
const LOGIN = '#login=';

/** The fragment after a single sign-on that failed, and what it says (dashboard/oidc.ts). */
const SSO = '#sso=';
const SSO_FAILURES: Record<string, string> = {
  denied: 'Your account has no role here. An admin of your sign-on can give it one.',
  conflict: 'Another operator has the name of your account. Ask an admin.',
  failed: 'The single sign-on failed. Try it again; the log of the service says why.',
};

/** The token of a link that has not reached the service yet. */
let unused: string | undefined;

/** The operator of the session. A login link is used first, and leaves the address bar and the history at once. */
export async function startSession(): Promise<void> {
  const token = location.hash.startsWith(LOGIN) ? location.hash.slice(LOGIN.length) : unused;
  const refused = location.hash.startsWith(SSO) ? SSO_FAILURES[location.hash.slice(SSO.length)] : undefined;
  const before = refused === undefined ? undefined : new Failure(refused, '');
  if (token !== undefined || refused) history.replaceState(null, '', location.pathname + location.search);
  try {
    if (token !== undefined) await useLink(token);
    unused = undefined;
    me.value = (await send(ME, {})).me;
    failure.value = undefined;
    hasEnded.value = false;
    returnToPlace();
  } catch (error) {
    me.value = null;
    const reason = asFailure(error);
    const isRefused = reason.code === 'UNAUTHENTICATED';
    unused = isRefused ? undefined : token;
    failure.value = isRefused && token === undefined ? before : reason;
  }
}

// A link that is opened in a tab of the dashboard changes only the fragment of its address. Another operator may be signed in then.
addEventListener('hashchange', () => {
  if (location.hash.startsWith(LOGIN)) location.reload();
});

/** The service restarts, or cannot be reached: that is no reason to sign in anew. */
function NotNow({ reason }: { reason: Failure }) {
  useEffect(() => every(3000, startSession), []);
  return (
    <main class="sign-in" id="main">
      <h1>userdir</h1>
      <div class="problem" role="alert">
        <p>
          <strong>{reason.message}</strong> The page goes on by itself as soon as it can.
        </p>
        <Button label="Try again" onClick={startSession} />
      </div>
    </main>
  );
}

async function useLink(token: string): Promise<void> {
  const response = await post('/dashboard/session', { token });
  if (!response.ok) throw await failureOf(response);
}

async function byPasskey(): Promise<void> {
  try {
    await signInByPasskey();
  } catch (error) {
    failure.value = asFailure(error);
    return;
  }
  await startSession();
}

function returnToPlace(): void {
  const place = sessionStorage.getItem(RETURN_TO);
  sessionStorage.removeItem(RETURN_TO);
  if (place?.startsWith('/dashboard/') && location.pathname === '/dashboard') location.replace(place);
}

export function SignIn() {
  useEffect(() => {
    document.title = 'Sign in · userdir';
    if (location.pathname.startsWith('/dashboard/'))
      sessionStorage.setItem(RETURN_TO, location.pathname + location.search);
    void loadConfig();
  }, []);
  if (me.value === undefined) return <Loading lines={3} />;
  const reason = failure.value;
  if (reason && ['UNAVAILABLE', 'UNREACHABLE'].includes(reason.code)) return <NotNow reason={reason} />;
  return (
    <main class="sign-in" id="main">
      <h1 tabIndex={-1}>Sign in to userdir</h1>
      {hasEnded.value && !reason && (
        <p class="banner warn" role="alert">
          Your session has ended. A link that you open in this tab leads back to where you were.
        </p>
      )}
      <Problem failure={reason} />
      {config.value.sso && (
        <p>
          <a class="button primary wide" href="/dashboard/oidc/login">
            Continue with single sign-on
          </a>
        </p>
      )}
      {hasPasskeys() && (
        <p>
          <Button
            label="Sign in with a passkey"
            class={config.value.sso ? 'wide' : 'primary wide'}
            onClick={byPasskey}
          />
        </p>
      )}
      <p>On the machine of the service, this prints a link that signs you in:</p>
      <pre>{config.value.command} dashboard --operator NAME</pre>
      <p class="quiet">An admin can also make a link for you, under Operators.</p>
      <PasskeysElsewhere />
    </main>
  );
}
