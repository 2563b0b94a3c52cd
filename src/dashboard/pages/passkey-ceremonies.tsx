import { signal } from '@preact/signals';
import {
  browserSupportsWebAuthn,
  type PublicKeyCredentialCreationOptionsJSON,
  type PublicKeyCredentialRequestOptionsJSON,
  startAuthentication,
  startRegistration,
} from '@simplewebauthn/browser';
import { asFailure, Failure, failureOf, graphql, post, send } from './graphql.js';

/** Passkeys: where they work, and how the browser is asked to make and to use one. */

/** What the service says of itself to everybody. */
export const config = signal({ sso: false, command: 'userdir', passkeys: null as string | null });

export async function loadConfig(): Promise<void> {
  const response = await fetch('/dashboard/config.json').catch(() => undefined);
  if (response?.ok) config.value = await response.json();
}

/** Whether a passkey can be made and used on this page. */
export const hasPasskeys = () => browserSupportsWebAuthn() && config.value.passkeys === location.origin;

/** Where passkeys work, if it is elsewhere. */
export function PasskeysElsewhere() {
  const { passkeys } = config.value;
  if (!passkeys || passkeys === location.origin) return null;
  return (
    <p class="quiet">
      Passkeys work at <a href={`${passkeys}/dashboard`}>{passkeys}</a>, and not at this address: browsers bind a
      passkey to a name, never to an IP address such as 127.0.0.1. In a link that signs you in, change the address, too.
    </p>
  );
}

const BEGIN = graphql(`mutation BeginPasskey { beginPasskey }`);
/** What the browser needs to make one. Throws a Failure, such as that the session is too old to add one. */
export const beginPasskey = async () =>
  JSON.parse((await send(BEGIN, {})).beginPasskey) as PublicKeyCredentialCreationOptionsJSON;

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
  const options = await beginPasskey();
  try {
    const { id, response } = await startRegistration({ optionsJSON: options });
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
  const options = (await asked.json()) as PublicKeyCredentialRequestOptionsJSON;
  try {
    const { id, response } = await startAuthentication({ optionsJSON: options });
    const { clientDataJSON, authenticatorData, signature, userHandle } = response;
    const answer = { id, clientDataJSON, authenticatorData, signature, userHandle };
    const begun = await post('/dashboard/passkey/session', answer);
    if (!begun.ok) throw await failureOf(begun);
  } catch (error) {
    throw whyNot(error);
  }
}
