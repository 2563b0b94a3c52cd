import { signal } from '@preact/signals';
import { asFailure, Failure, failureOf, graphql, post, send } from './graphql.js';

/** Passkeys: where they work, and how the browser is asked to make and to use one. */

/** The service's public words about itself. */
export const config = signal({ sso: false, command: 'userdir', passkeys: null as string | null });

export async function loadConfig(): Promise<void> {
  const response = await fetch('/dashboard/config.json').catch(() => undefined);
  if (response?.ok) config.value = await response.json();
}

/** Browsers since 2025 read and write what a passkey needs. */
const isNewBrowser = () => 'parseCreationOptionsFromJSON' in (globalThis.PublicKeyCredential ?? {});
const isHere = () => config.value.passkeys === location.origin;

/** True if a passkey can be made and used on this page. */
export const hasPasskeys = () => isHere() && isNewBrowser();

/** The address where passkeys work, if they do not work here. */
export function PasskeysElsewhere() {
  const { passkeys } = config.value;
  if (!passkeys || hasPasskeys()) return null;
  if (isHere()) return <p class="quiet">Passkeys need a newer browser.</p>;
  return (
    <p class="quiet">
      Passkeys work at <a href={`${passkeys}/dashboard`}>{passkeys}</a>, and not at this address: browsers bind a
      passkey to a name, never to an IP address such as 127.0.0.1. In a link that signs you in, change the address, too.
    </p>
  );
}

const BEGIN = graphql(`mutation BeginPasskey { beginPasskey }`);
/** The browser's options to make one. Throws a Failure, for example if the session is too old to add one. */
export const beginPasskey = async () =>
  PublicKeyCredential.parseCreationOptionsFromJSON(JSON.parse((await send(BEGIN, {})).beginPasskey));

const ADD = graphql(`
  mutation AddPasskey($name: String!, $id: String!, $clientDataJSON: String!, $attestationObject: String!) {
    addPasskey(name: $name, id: $id, clientDataJSON: $clientDataJSON, attestationObject: $attestationObject) { name }
  }
`);

/** Why the browser has made or used no passkey. */
function whyNot(error: unknown): Failure {
  if (error instanceof Failure) return error;
  const { name } = error as Error;
  if (name === 'InvalidStateError') return new Failure('This device has a passkey of yours already.', 'KNOWN');
  if (name === 'NotAllowedError')
    return new Failure('No passkey was chosen in time, or it was refused. Try again.', 'CANCELLED');
  return asFailure(error);
}

/** The browser makes a passkey, which is added. */
export async function makePasskey(name: string) {
  const publicKey = await beginPasskey();
  try {
    const credential = (await navigator.credentials.create({ publicKey })) as PublicKeyCredential;
    const { id, response } = credential.toJSON() as RegistrationResponseJSON;
    const { clientDataJSON, attestationObject } = response;
    return await send(ADD, { name, id, clientDataJSON, attestationObject });
  } catch (error) {
    throw whyNot(error);
  }
}

/** A session begins by a passkey that the operator chooses. */
export async function signInByPasskey(): Promise<void> {
  const asked = await post('/dashboard/passkey/challenge', {});
  if (!asked.ok) throw await failureOf(asked);
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(await asked.json());
  try {
    const chosen = (await navigator.credentials.get({ publicKey })) as PublicKeyCredential;
    const { id, response } = chosen.toJSON() as AuthenticationResponseJSON;
    const { clientDataJSON, authenticatorData, signature, userHandle } = response;
    const answer = { id, clientDataJSON, authenticatorData, signature, userHandle };
    const begun = await post('/dashboard/passkey/session', answer);
    if (!begun.ok) throw await failureOf(begun);
  } catch (error) {
    throw whyNot(error);
  }
}
