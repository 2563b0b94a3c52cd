import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { asFailure, Failure, graphql, post, send } from './graphql.js';
import { Loading, Problem } from './parts.js';
import { me } from './session.js';

const ME = graphql(`query Me { me { name role sessionId expiresAt idleMinutes version can } }`);

/** Where to go after single sign-on, which leaves the page. */
const RETURN_TO = 'userdir-return-to';

const failure = signal<Failure | undefined>(undefined);
const offersSso = signal(false);

/** Who is signed in. A login link (`#login=TOKEN`) is used first, and leaves the address bar and the history at once. */
export async function startSession(): Promise<void> {
  const token = /^#login=(.+)$/.exec(location.hash)?.[1];
  if (token !== undefined) history.replaceState(null, '', location.pathname + location.search);
  failure.value = undefined;
  try {
    if (token !== undefined) await useLink(token);
    await fetchMe();
    returnToPlace();
  } catch (error) {
    me.value = null;
    const reason = asFailure(error);
    if (reason.code !== 'UNAUTHENTICATED' || token !== undefined) failure.value = reason;
  }
}

async function fetchMe(): Promise<void> {
  const answer = await send(ME, {});
  me.value = answer.me;
}

async function useLink(token: string): Promise<void> {
  const response = await post('/dashboard/session', { token });
  if (response.ok) return;
  const body = (await response.json().catch(() => ({}))) as { error?: { code?: string; message?: string } };
  const message = body.error?.message ?? `The service answered with status ${response.status}.`;
  throw new Failure(message, body.error?.code ?? 'UNAUTHENTICATED');
}

function returnToPlace(): void {
  const place = sessionStorage.getItem(RETURN_TO);
  sessionStorage.removeItem(RETURN_TO);
  if (place?.startsWith('/dashboard/') && location.pathname === '/dashboard') location.replace(place);
}

const rememberPlace = () => sessionStorage.setItem(RETURN_TO, location.pathname + location.search);

export function SignIn() {
  useEffect(() => {
    document.title = 'Sign in · userdir';
    fetch('/dashboard/config.json')
      .then((response) => response.json())
      .then((config: { sso?: boolean }) => {
        offersSso.value = config.sso === true;
      })
      .catch(() => undefined);
  }, []);
  if (me.value === undefined) return <Loading lines={3} />;
  const reason = failure.value;
  return (
    <main class="sign-in" id="main">
      <h1>Sign in to userdir</h1>
      {reason?.code === 'UNAUTHENTICATED' ? (
        <div class="problem" role="alert">
          <p>
            <strong>This link does not sign you in.</strong> {reason.message} A link works once, within ten minutes. Ask
            for a new one.
          </p>
        </div>
      ) : (
        <Problem failure={reason} />
      )}
      {offersSso.value && (
        <p>
          <a class="button primary wide" href="/dashboard/oidc/login" onClick={rememberPlace}>
            Continue with single sign-on
          </a>
        </p>
      )}
      <p>On the machine of the service, this prints a link that signs you in:</p>
      <pre>userdir dashboard --operator NAME</pre>
      <p class="quiet">An admin can also make a link for you, under Operators.</p>
    </main>
  );
}
