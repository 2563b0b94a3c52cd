import { hash } from 'node:crypto';
import type {
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
} from '@simplewebauthn/server';
import type { Database } from '../db/database.js';
import type { Prisma } from '../db/generated/prisma/client.js';
import type { ModelTransaction } from '../db/statements.js';
import { MAX_LISTED } from '../domain/bounds.js';
import { inWords } from '../domain/figures.js';
import {
  type ActiveSession,
  type BegunSession,
  type Operator,
  operatorName,
  permissionsOf,
  RefusedLogIn,
  requirePermission,
} from '../domain/operators.js';
import { parse } from '../domain/parse.js';
import {
  ADDING_MS,
  type Assertion,
  CHALLENGE_MS,
  isWellFormed,
  MAX_PASSKEYS,
  type NewCredential,
  type Passkey,
  requirePasskeyName,
  type Site,
} from '../domain/passkeys.js';
import { AppError, badInput, show } from '../errors.js';
import { logActor, record } from './operator-log.js';
import type { OperatorSessions } from './operator-sessions.js';
import type { SessionOrigin } from './operators.sql.js';
import { createChallenges } from './passkey-challenges.js';
import * as sql from './passkeys.sql.js';

/** The passkeys with which operators sign in. */
export interface Passkeys {
  /** A browser's options to make a passkey for the operator of a session, as JSON. CONFLICT. */
  beginAdding(session: ActiveSession, site: Site | null): Promise<PublicKeyCredentialCreationOptionsJSON>;
  /** Adds the passkey that the browser of an operator's session has made. BAD_USER_INPUT; CONFLICT. */
  add(
    by: Operator,
    session: ActiveSession,
    site: Site | null,
    made: MadePasskey,
    requestId: string | null,
  ): Promise<Passkey>;
  /** A browser's options to sign in by any passkey of the site, as JSON. CONFLICT. */
  beginLogIn(site: Site | null): Promise<PublicKeyCredentialRequestOptionsJSON>;
  /** Begins a session by a passkey that has signed the challenge of this browser. UNAUTHENTICATED, always with the same message. */
  logIn(
    site: Site | null,
    token: unknown,
    assertion: Record<keyof Assertion, unknown>,
    caller: SessionOrigin,
  ): Promise<BegunSession>;
  /** The passkeys that an operator may see: their own, or for an admin of all projects all; the newest first. */
  listPasskeys(by: Operator): Promise<Passkey[]>;
  /** The passkeys of an operator. FORBIDDEN, BAD_USER_INPUT, NOT_FOUND. */
  listPasskeysOf(by: Operator, name: string): Promise<Passkey[]>;
  /** Removes a passkey, whose sessions end at once: one's own, or for an admin of all projects any. NOT_FOUND. */
  removePasskey(by: Operator, id: number, requestId?: string | null): Promise<Passkey>;
}

/** What the browser has made, and the name that the operator gives it. */
export interface MadePasskey {
  readonly name: string;
  readonly credential: NewCredential;
}

/** Loaded when the first passkey is used: it takes half a second and 30 MB. */
const loadWebAuthn = () => import('@simplewebauthn/server');

/** ES256 and RS256: every authenticator has one of them. */
const ALGORITHMS = [-7, -257];

const NO_SITE =
  'Passkeys need the name of a host, such as https://users.example.com in PUBLIC_URL, or the dashboard at localhost on the port of the service.';
const REFUSED = 'This passkey is not valid here, or it took too long. Try again, or sign in by a link.';

const OF_SSO =
  'The single sign-on decides at each sign-in who comes in, and as what. A passkey would be a way around it, so you have none.';
const TOO_MANY = `An operator has at most ${MAX_PASSKEYS} passkeys. Remove one first.`;
const NOT_FRESH = `A passkey is added within ${inWords(ADDING_MS)} of a sign-in by a link. Sign in by a link again, and then add it.`;

export function createPasskeys(
  db: Database,
  operators: Pick<OperatorSessions, 'begin'>,
  randomBytes: (size: number) => Buffer,
): Passkeys {
  const challenges = createChallenges(db, randomBytes);

  return {
    async beginAdding({ id: sessionId }, site) {
      requireSite(site);
      const { subject, passkeys, ...applicant } = await db.models((models) => findOperatorOf(models, sessionId));
      if (subject !== null) throw new AppError('CONFLICT', OF_SSO);
      if (passkeys.length >= MAX_PASSKEYS) throw new AppError('CONFLICT', TOO_MANY);
      if (!(await sql.mayAdd(db, sessionId))) throw new AppError('CONFLICT', NOT_FRESH);
      const { generateRegistrationOptions } = await loadWebAuthn();
      return generateRegistrationOptions({
        rpName: 'userdir',
        rpID: site.host,
        userName: applicant.name,
        userID: new Uint8Array(handleOf(applicant)),
        challenge: await challenges.make(sessionId),
        timeout: CHALLENGE_MS,
        excludeCredentials: passkeys.map(({ credentialId }) => ({ id: toBase64url(credentialId) })),
        authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
        supportedAlgorithmIDs: ALGORITHMS,
      });
    },

    async add(by, { id: sessionId }, site, { name, credential }, requestId) {
      requireSite(site);
      requirePasskeyName(name);
      if (!isWellFormed<NewCredential>({ ...credential }))
        throw badInput('credential', credential.id, 'what the browser has answered');
      const challenge = await challenges.read(challengeIn(credential.clientDataJSON), sessionId);
      const verified = challenge !== null && (await verifyNew(credential, challenge, site).catch(() => null));
      if (!verified || !(await challenges.use(challenge)))
        throw badInput('credential', credential.id, 'a new passkey, made for this page just now');
      return db.change(async (tx) => {
        const added = await insertPasskey(tx, sessionId, { name, host: site.host, ...verified });
        await record(tx, logActor(by, requestId), 'add_passkey', { passkey: added.id, name });
        return added;
      });
    },

    async beginLogIn(site) {
      requireSite(site);
      const { generateAuthenticationOptions } = await loadWebAuthn();
      return generateAuthenticationOptions({
        rpID: site.host,
        challenge: await challenges.make(null),
        timeout: CHALLENGE_MS,
        userVerification: 'required',
      });
    },

    async logIn(site, token, assertion, caller) {
      requireSite(site);
      const challenge = await challenges.read(token, null);
      if (challenge === null) throw refused('the challenge is late, or of another browser');
      if (!isWellFormed<Assertion>(assertion)) throw refused('the answer of the browser has another form');
      const signer = await findSigner(db, site, challenge, assertion);
      if (!(await challenges.use(challenge))) throw refused('the challenge was signed before');
      await caller.admit?.(signer.operator);
      const session = await operators.begin(signer, caller);
      if (session) return session;
      throw await whyRefused(db, signer.passkeyId);
    },

    listPasskeys: (by) => list(db, seenBy(by)),

    async listPasskeysOf(by, name) {
      requirePermission(by, 'govern');
      const operator = { name: parse(operatorName('name'), name) };
      const isKnown = (await db.models((models) => models.operator.count({ where: operator }))) > 0;
      if (!isKnown) throw new AppError('NOT_FOUND', `There is no operator ${show(name)}.`);
      return list(db, { operator });
    },

    async removePasskey(by, id, requestId = null) {
      const where = { id, ...seenBy(by) };
      const [passkey] = await list(db, where);
      await db.change(async (tx) => {
        if (passkey === undefined || (await tx.operatorPasskey.deleteMany({ where })).count === 0) throw noPasskey(id);
        const details = { passkey: id, name: passkey.name, operator: passkey.operator };
        await record(tx, logActor(by, requestId), 'remove_passkey', details);
      });
      return passkey as Passkey;
    },
  };
}

/** The passkeys that an operator may see and remove: their own, or those of all. */
const seenBy = (by: Operator) => (permissionsOf(by).includes('govern') ? {} : { operator: { name: by.name } });

const noPasskey = (id: number) => new AppError('NOT_FOUND', `There is no passkey ${id}.`);

interface NewPasskey {
  readonly name: string;
  readonly host: string;
  /** As the authenticator names it. */
  readonly id: string;
  readonly publicKey: Uint8Array<ArrayBuffer>;
  readonly counter: number;
}

/** Adds a passkey for the operator of a session. UNAUTHENTICATED; CONFLICT. */
async function insertPasskey(
  tx: ModelTransaction,
  sessionId: number,
  { id, name, host, publicKey, counter }: NewPasskey,
): Promise<Passkey> {
  await sql.lockOperator(tx, sessionId);
  const { id: operatorId, passkeys } = await findOperatorOf(tx, sessionId);
  if (passkeys.length >= MAX_PASSKEYS) throw new AppError('CONFLICT', TOO_MANY);
  const data = {
    operatorId,
    name,
    host,
    credentialId: fromBase64url(id),
    publicKey,
    counter,
  };
  const include = { operator: true };
  const [added] = await tx.operatorPasskey.createManyAndReturn({ data, skipDuplicates: true, include });
  if (added === undefined) throw new AppError('CONFLICT', 'This passkey is known already.');
  return toPasskey(added);
}

/** The passkey that has signed, and its count. UNAUTHENTICATED if it is not known, or its signature is not good. */
async function findSigner(db: Database, site: Site, challenge: string, assertion: Assertion) {
  const where = { credentialId: fromBase64url(assertion.id), host: site.host };
  const passkey = await db.models((models) =>
    models.operatorPasskey.findUnique({ where, include: { operator: true } }),
  );
  if (passkey === null) throw refused('the passkey is not known');
  const counter = await verifyUse(assertion, challenge, site, passkey).catch(() => null);
  if (counter === null) throw refused('what it has signed is not good', toPasskey(passkey));
  return { passkeyId: passkey.id, counter, operator: passkey.operator.name };
}

async function list(db: Database, where: Prisma.OperatorPasskeyWhereInput): Promise<Passkey[]> {
  const query = { where, include: { operator: true }, orderBy: { id: 'desc' }, take: MAX_LISTED } as const;
  return (await db.models((models) => models.operatorPasskey.findMany(query))).map(toPasskey);
}

/** Why a passkey whose signature is good is refused: it has been removed just now, or its count does not grow, as that of a copy. */
async function whyRefused(db: Database, id: number): Promise<RefusedLogIn> {
  const [passkey] = await list(db, { id });
  return passkey === undefined
    ? refused('the passkey was removed just now')
    : refused('its count does not grow', passkey);
}

/** The handle by which authenticators know an operator: nothing personal, one for all passkeys, and another one in every database. */
const handleOf = ({ id, createdAt }: { readonly id: number; readonly createdAt: Date }) =>
  hash('sha256', `${id} ${createdAt.toISOString()}`, 'buffer') as Buffer<ArrayBuffer>;

const fromBase64url = (text: string) => new Uint8Array(Buffer.from(text, 'base64url'));
const toBase64url = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64url');

/** The challenge that a browser says was signed; undefined where it says nothing that can be read. */
function challengeIn(clientDataJSON: string): unknown {
  try {
    return JSON.parse(Buffer.from(clientDataJSON, 'base64url').toString()).challenge;
  } catch {
    return undefined;
  }
}

/** An authenticator's answer without the statement of its maker: to check one could mean to ask servers that it names. */
async function withoutStatement(attestationObject: string): Promise<string> {
  const { decodeAttestationObject, isoCBOR } = await import('@simplewebauthn/server/helpers');
  const authData = decodeAttestationObject(fromBase64url(attestationObject)).get('authData');
  const parts = new Map(Object.entries({ fmt: 'none', attStmt: new Map(), authData }));
  return toBase64url(isoCBOR.encode(parts));
}

async function verifyNew({ id, clientDataJSON, attestationObject }: NewCredential, challenge: string, site: Site) {
  const { verifyRegistrationResponse } = await loadWebAuthn();
  const { registrationInfo } = await verifyRegistrationResponse({
    response: {
      id,
      rawId: id,
      type: 'public-key',
      response: { clientDataJSON, attestationObject: await withoutStatement(attestationObject) },
      clientExtensionResults: {},
    },
    expectedChallenge: challenge,
    expectedOrigin: site.origin,
    expectedRPID: site.host,
    requireUserVerification: true,
    supportedAlgorithmIDs: ALGORITHMS,
  });
  const credential = registrationInfo?.credential;
  if (credential?.id !== id) throw new Error('The credential has another ID.');
  return credential;
}

/** A passkey as it is stored, with its operator. */
type StoredPasskey = Prisma.OperatorPasskeyGetPayload<{ include: { operator: true } }>;

/** The count of the authenticator, which is compared where it is stored. Throws if the passkey has not signed this challenge for this site. */
async function verifyUse(assertion: Assertion, challenge: string, site: Site, passkey: StoredPasskey) {
  const { verifyAuthenticationResponse } = await loadWebAuthn();
  const { id, clientDataJSON, authenticatorData, signature, userHandle } = assertion;
  if (!handleOf(passkey.operator).equals(fromBase64url(userHandle)))
    throw new Error('The passkey is of another operator.');
  const { verified, authenticationInfo } = await verifyAuthenticationResponse({
    response: {
      id,
      rawId: id,
      type: 'public-key',
      response: { clientDataJSON, authenticatorData, signature },
      clientExtensionResults: {},
    },
    expectedChallenge: challenge,
    expectedOrigin: site.origin,
    expectedRPID: site.host,
    credential: { id, publicKey: new Uint8Array(passkey.publicKey), counter: 0 },
    requireUserVerification: true,
  });
  if (!verified) throw new Error('The signature is wrong.');
  return authenticationInfo.newCounter;
}

/** The operator of a session, with the credentials of their passkeys. UNAUTHENTICATED if it has just ended. */
async function findOperatorOf({ operator }: ModelTransaction, sessionId: number) {
  const row = await operator.findFirst({
    where: { sessions: { some: { id: sessionId } } },
    include: { passkeys: { select: { credentialId: true } } },
  });
  if (row === null) throw new AppError('UNAUTHENTICATED', 'The session has ended.');
  return row;
}

/** A refusal whose message is always the same; the log says why, and of which passkey if that is known. */
function refused(reason: string, passkey?: Pick<Passkey, 'id' | 'name' | 'operator'>): RefusedLogIn {
  const of = passkey && { passkey: passkey.id, name: passkey.name, operator: passkey.operator };
  return new RefusedLogIn(REFUSED, { by: 'passkey', ...of, reason });
}

function toPasskey({ id, name, host, createdAt, lastUsedAt, operator }: StoredPasskey): Passkey {
  return {
    id,
    name,
    host,
    createdAt: createdAt.toISOString(),
    lastUsedAt: lastUsedAt?.toISOString() ?? null,
    operator: operator.name,
  };
}

/** CONFLICT. */
function requireSite(site: Site | null): asserts site is Site {
  if (site === null) throw new AppError('CONFLICT', NO_SITE);
}
