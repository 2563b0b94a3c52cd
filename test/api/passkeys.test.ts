import type { Socket } from 'node:net';
import { expect, test, vi } from 'vitest';
import { siteOf } from '#dist/dashboard/passkey-sign-in.js';
import { THE_OPERATOR } from '#dist/domain/operators.js';
import { type Json, startTestApp, type TestApp, useTestApp } from '../support/app.js';
import { type Authenticator, createAuthenticator, type Signing } from '../support/authenticator.js';
import { cookieOf, logIn, logInAgain, type TestOperator } from '../support/dashboard.js';
import { codesOf } from '../support/graphql.js';

/** Passkeys of operators, with an authenticator in software that can be made to lie. */
const ORIGIN = 'https://users.example.com';
/** Attempts are limited by address, so that each is of another one. */
const HTTPS = { PUBLIC_URL: ORIGIN, TRUST_PROXY: 'on' };
const app = useTestApp({ env: HTTPS });

const ME = '{ me { name } }';
const PASSKEYS = '{ passkeys { id operator name host lastUsedAt } }';
const ADD = `mutation ($name: String!, $id: String!, $clientDataJSON: String!, $attestationObject: String!) {
  addPasskey(name: $name, id: $id, clientDataJSON: $clientDataJSON, attestationObject: $attestationObject) { id operator name host lastUsedAt } }`;
const REMOVE = 'mutation ($id: ID!) { removePasskey(id: $id) { id } }';

const sql = async (text: string, ...values: unknown[]): Promise<Json[]> =>
  (await app.context.db.pool.query(text, values)).rows;
const log = async (actor: string) =>
  (await sql('SELECT action, details FROM operator_log WHERE actor = $1 ORDER BY id', `operator:${actor}`)).map(
    ({ action, details }) => [action, details],
  );

const begin = async (operator: TestOperator): Promise<Json> =>
  JSON.parse((await operator.ask('mutation { beginPasskey }')).beginPasskey);

/** Adds a passkey of a new authenticator. */
async function addPasskey(operator: TestOperator, name = 'laptop', origin = ORIGIN, told: Partial<Signing> = {}) {
  const key = createAuthenticator();
  const credential = key.register(await begin(operator), { origin, ...told });
  const { addPasskey: added } = await operator.ask(ADD, { name, ...credential });
  return { key, added };
}

let addresses = 0;
const newAddress = () => `10.${addresses >> 16}.${(addresses >> 8) & 255}.${addresses++ & 255}`;

const post = (path: string, body: unknown, headers: Record<string, string> = {}, service: TestApp = app) =>
  fetch(`${service.url}/dashboard/passkey/${path}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'sec-fetch-site': 'same-origin',
      'x-forwarded-for': newAddress(),
      ...headers,
    },
    body: JSON.stringify(body),
  });

/** What a browser is asked to sign, and its cookie. */
async function ask(service: TestApp = app, headers: Record<string, string> = {}) {
  const response = await post('challenge', {}, headers, service);
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  const options = (await response.json()) as Json;
  return { options, challenge: options.challenge as string, cookie: cookieOf(response), response };
}

/** Signs in with what an authenticator answers. */
async function signIn(key: Authenticator, told: Partial<Signing> = {}) {
  const { challenge, cookie } = await ask();
  return post('session', key.sign({ origin: ORIGIN, challenge, ...told }), { cookie });
}

/** The cookie of the session that an answer begins. */
const sessionOf = (response: Response) =>
  response.headers
    .getSetCookie()
    .map((line) => line.replace(/;.*/s, ''))
    .find((pair) => !pair.includes('-passkey=')) ?? '';

async function me(response: Response): Promise<Json> {
  const answer = await fetch(`${app.url}/dashboard/graphql`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin', cookie: sessionOf(response) },
    body: JSON.stringify({ query: ME }),
  });
  return ((await answer.json()) as Json).data?.me?.name;
}

const REFUSED = {
  error: {
    code: 'UNAUTHENTICATED',
    message: 'This passkey is not valid here, or it took too long. Try again, or sign in by a link.',
  },
};
async function expectRefusal(response: Response) {
  expect([response.status, await response.json()]).toEqual([401, REFUSED]);
  expect(sessionOf(response)).toBe('');
}

test('a passkey is added within a session of a link, and signs in without a name', async () => {
  const ada = await logIn(app, 'viewer');
  const options = await begin(ada);
  expect(options).toMatchObject({
    rp: { id: 'users.example.com', name: 'userdir' },
    user: { name: ada.name },
    attestation: 'none',
    authenticatorSelection: { residentKey: 'required', requireResidentKey: true, userVerification: 'required' },
  });
  const { key, added } = await addPasskey(ada);
  expect(added).toEqual({
    id: expect.any(String),
    operator: ada.name,
    name: 'laptop',
    host: 'users.example.com',
    lastUsedAt: null,
  });
  const asked = await ask();
  expect(asked.options).toMatchObject({ rpId: 'users.example.com', userVerification: 'required' });
  expect(asked.options.allowCredentials).toBeUndefined();
  expect(asked.response.headers.get('set-cookie')).toMatch(
    /^__Host-userdir-dashboard-passkey=[\w-]{43}; Max-Age=300; Path=\/; HttpOnly; Secure; SameSite=Strict$/,
  );
  const response = await signIn(key);
  expect(response.status).toBe(204);
  expect(response.headers.getSetCookie().join('\n')).toMatch(
    /__Host-userdir-dashboard=[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; Secure; SameSite=Strict$/m,
  );
  expect(await me(response)).toBe(ada.name);
  const { sessions } = await ada.ask('{ sessions { by } }');
  expect(sessions.map(({ by }: Json) => by).sort()).toEqual(['link', 'passkey']);
  expect((await ada.ask(PASSKEYS)).passkeys).toMatchObject([{ id: added.id, lastUsedAt: expect.stringMatching(/Z$/) }]);
  const id = Number(added.id);
  expect(await log(ada.name)).toEqual([
    ['log_in', { by: 'link', session: expect.any(Number) }],
    ['add_passkey', { passkey: id, name: 'laptop' }],
    ['log_in', { by: 'passkey', passkey: id, session: expect.any(Number) }],
  ]);
});

test('the next passkey of an operator is of another device, and for the same account', async () => {
  const ada = await logIn(app, 'viewer');
  const first = await begin(ada);
  const { key } = await addPasskey(ada);
  const second = await begin(ada);
  expect(second.excludeCredentials).toMatchObject([{ id: key.id }]);
  expect(second.user.id).toBe(first.user.id);
  expect((await begin(await logIn(app, 'viewer'))).user.id).not.toBe(first.user.id);
});

test('what was signed is good once, in the browser that was asked, within five minutes', async () => {
  const { key } = await addPasskey(await logIn(app, 'viewer'));
  const { challenge, cookie } = await ask();
  const answer = key.sign({ origin: ORIGIN, challenge });
  await expectRefusal(await post('session', answer));
  await expectRefusal(await post('session', answer, { cookie: (await ask()).cookie }));
  expect((await post('session', answer, { cookie })).status).toBe(204);
  await expectRefusal(await post('session', answer, { cookie }));
  // A sign-in forgets the challenges that are late, and no other.
  expect((await signIn(key)).status).toBe(204);
  await expectRefusal(await post('session', answer, { cookie }));

  const late = await ask();
  const lateAnswer = key.sign({ origin: ORIGIN, challenge: late.challenge });
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 5 * 60_000 });
  try {
    await expectRefusal(await post('session', lateAnswer, { cookie: late.cookie }));
  } finally {
    vi.useRealTimers();
  }
  expect((await post('session', lateAnswer, { cookie: late.cookie })).status).toBe(204);
});

test.each<[string, Partial<Signing>]>([
  ['another origin', { origin: 'https://evil.example.com', host: 'users.example.com' }],
  ['a page below the same name', { origin: 'https://a.users.example.com', host: 'users.example.com' }],
  ['the same name without TLS', { origin: 'http://users.example.com' }],
  ['another host', { host: 'evil.example.com' }],
  ['nobody who has shown who they are', { isUserVerified: false }],
  ['another key', { isForged: true }],
  ['another purpose', { type: 'webauthn.create' }],
  ['another operator', { userHandle: 'AAAA' }],
  ['no operator', { userHandle: '' }],
])('an answer for %s is refused as an unknown passkey is', async (_what, told) => {
  const { key } = await addPasskey(await logIn(app, 'viewer'));
  await expectRefusal(await signIn(createAuthenticator(), { userHandle: 'AAAA' }));
  await expectRefusal(await signIn(key, told));
  expect((await signIn(key)).status).toBe(204);
});

test('a key with the ID of another operator’s passkey does not sign in, and is not added', async () => {
  const [ada, bob] = [await logIn(app, 'admin'), await logIn(app, 'viewer')];
  const { key } = await addPasskey(ada);
  const own = createAuthenticator();
  const { challenge, cookie } = await ask();
  const forged = { ...own.sign({ origin: ORIGIN, challenge, userHandle: 'AAAA' }), id: key.id };
  await expectRefusal(await post('session', forged, { cookie }));
  const known = await bob.graphql(ADD, { name: 'x', ...key.register(await begin(bob), { origin: ORIGIN }) });
  expect(codesOf(known)).toEqual(['CONFLICT']);
  const claimed = own.register(await begin(bob), { origin: ORIGIN });
  expect(codesOf(await bob.graphql(ADD, { name: 'x', ...claimed, id: key.id }))).toEqual(['BAD_USER_INPUT']);
  expect((await bob.ask(PASSKEYS)).passkeys).toEqual([]);
});

test('a challenge of one purpose or session is not good for another', async () => {
  const [ada, bob] = [await logIn(app, 'viewer'), await logIn(app, 'viewer')];
  const { key } = await addPasskey(ada);
  const own = createAuthenticator();
  // A sign-in’s challenge adds no passkey.
  const { challenge } = await ask();
  const options = await begin(bob);
  const crossed = own.register(options, { origin: ORIGIN, challenge });
  expect(codesOf(await bob.graphql(ADD, { name: 'x', ...crossed }))).toEqual(['BAD_USER_INPUT']);
  // Nor does that of another session.
  const stolen = own.register(options, { origin: ORIGIN, challenge: (await begin(ada)).challenge });
  expect(codesOf(await bob.graphql(ADD, { name: 'x', ...stolen }))).toEqual(['BAD_USER_INPUT']);
  // And what adds a passkey does not sign in, even as the cookie.
  const adding = (await begin(ada)).challenge;
  const cookie = `__Host-userdir-dashboard-passkey=${adding}`;
  await expectRefusal(await post('session', key.sign({ origin: ORIGIN, challenge: adding }), { cookie }));
});

test('what is asked for and never signed is kept nowhere, so that no one can push out the sign-ins of others', async () => {
  const { key } = await addPasskey(await logIn(app, 'viewer'));
  const viewer = await logIn(app, 'viewer');
  const kept = async () => (await sql('SELECT count(*)::int AS n FROM passkey_challenges'))[0].n;
  const before = await kept();
  const { challenge, cookie } = await ask();
  const aliases = Array.from({ length: 100 }, (_, n) => `a${n}: beginPasskey`).join(' ');
  expect(codesOf(await viewer.graphql(`mutation { ${aliases} }`))).toEqual([]);
  for (let n = 0; n < 30; n += 1) await ask(app, { 'x-forwarded-for': '192.0.2.77' });
  expect(await kept()).toBe(before);
  expect((await post('session', key.sign({ origin: ORIGIN, challenge }), { cookie })).status).toBe(204);
});

test('a challenge that this service has not made is refused', async () => {
  const { key } = await addPasskey(await logIn(app, 'viewer'));
  const { challenge } = await ask();
  const bytes = Buffer.from(challenge, 'base64url');
  for (const place of [0, 12, 20, 31]) {
    const forged = Buffer.from(bytes);
    forged[place] = (forged[place] as number) ^ 1;
    const text = forged.toString('base64url');
    const cookie = `__Host-userdir-dashboard-passkey=${text}`;
    await expectRefusal(await post('session', key.sign({ origin: ORIGIN, challenge: text }), { cookie }));
  }
});

test('what a browser has made is added once', async () => {
  const ada = await logIn(app, 'viewer');
  const made = createAuthenticator().register(await begin(ada), { origin: ORIGIN });
  const { addPasskey: added } = await ada.ask(ADD, { name: 'once', ...made });
  await ada.ask(REMOVE, { id: added.id });
  expect(codesOf(await ada.graphql(ADD, { name: 'twice', ...made }))).toEqual(['BAD_USER_INPUT']);
  expect((await ada.ask(PASSKEYS)).passkeys).toEqual([]);
});

test.each<[string, Partial<Signing>]>([
  ['another origin', { origin: 'https://evil.example.com', host: 'users.example.com' }],
  ['another host', { host: 'evil.example.com' }],
  ['nobody who has shown who they are', { isUserVerified: false }],
  ['another purpose', { type: 'webauthn.get' }],
])('a passkey made for %s is not added', async (_what, told) => {
  const ada = await logIn(app, 'viewer');
  const made = createAuthenticator().register(await begin(ada), { origin: ORIGIN, ...told });
  expect(codesOf(await ada.graphql(ADD, { name: 'x', ...made }))).toEqual(['BAD_USER_INPUT']);
});

test('where an authenticator counts, a count that does not grow is refused', async () => {
  const ada = await logIn(app, 'viewer');
  const { key, added } = await addPasskey(ada, 'counts', ORIGIN, { counter: 5 });
  const refused = async (response: Response) =>
    (
      await sql('SELECT actor, details FROM operator_log WHERE request_id = $1', response.headers.get('x-request-id'))
    ).map(({ actor, details }) => [actor, details]);
  const copied = await signIn(key, { counter: 5 });
  await expectRefusal(copied);
  // The log says which passkey it was, and why.
  const passkey = { by: 'passkey', passkey: Number(added.id), name: 'counts', operator: ada.name };
  expect(await refused(copied)).toEqual([
    ['unknown', { refused: 'log_in', ...passkey, reason: 'its count does not grow' }],
  ]);
  const forged = await signIn(key, { counter: 5, isForged: true });
  await expectRefusal(forged);
  expect(await refused(forged)).toEqual([
    ['unknown', { refused: 'log_in', ...passkey, reason: 'what it has signed is not good' }],
  ]);
  expect((await signIn(key, { counter: 7 })).status).toBe(204);
  await expectRefusal(await signIn(key, { counter: 6 }));
  await expectRefusal(await signIn(key, { counter: 0 }));
  const twins = [await ask(), await ask()].map(({ challenge, cookie }) =>
    post('session', key.sign({ origin: ORIGIN, challenge, counter: 8 }), { cookie }),
  );
  expect((await Promise.all(twins)).map(({ status }) => status).sort()).toEqual([204, 401]);
});

test('a removed passkey does not sign in, and ends the sessions that it began, and no others', async () => {
  const ada = await logIn(app, 'viewer');
  const { key, added } = await addPasskey(ada);
  const other = await addPasskey(ada, 'other');
  const [session, kept] = [await signIn(key), await signIn(other.key)];
  expect(await ada.ask(REMOVE, { id: added.id })).toEqual({ removePasskey: { id: added.id } });
  await expectRefusal(await signIn(key));
  expect([await me(session), await me(kept)]).toEqual([undefined, ada.name]);
  expect(codesOf(await ada.graphql(REMOVE, { id: added.id }))).toEqual(['NOT_FOUND']);
  expect((await log(ada.name)).at(-1)).toEqual([
    'remove_passkey',
    { passkey: Number(added.id), name: 'laptop', operator: ada.name },
  ]);
});

test('one sees and removes one’s own passkeys, an admin all', async () => {
  const [admin, ada, bob] = [await logIn(app, 'admin'), await logIn(app, 'support'), await logIn(app, 'viewer')];
  const { added } = await addPasskey(ada);
  expect((await bob.ask(PASSKEYS)).passkeys).toEqual([]);
  expect(codesOf(await bob.graphql(REMOVE, { id: added.id }))).toEqual(['NOT_FOUND']);
  expect((await admin.ask(PASSKEYS)).passkeys).toContainEqual(
    expect.objectContaining({ id: added.id, operator: ada.name }),
  );
  const OF = 'query ($name: String!) { passkeys(operator: $name) { id } }';
  expect(await admin.ask(OF, { name: ada.name })).toEqual({ passkeys: [{ id: added.id }] });
  expect(await admin.ask(OF, { name: bob.name })).toEqual({ passkeys: [] });
  expect(codesOf(await admin.graphql(OF, { name: 'nobody' }))).toEqual(['NOT_FOUND']);
  expect(codesOf(await ada.graphql(OF, { name: ada.name }))).toEqual(['FORBIDDEN']);
  // Who is limited to some projects manages no operators.
  const limited = await logIn(app, 'admin');
  await app.context.services.operators.updateOperator(THE_OPERATOR, limited.name, { appIds: [] });
  expect((await limited.ask(PASSKEYS)).passkeys).toEqual([]);
  expect(codesOf(await limited.graphql(REMOVE, { id: added.id }))).toEqual(['NOT_FOUND']);
  await admin.ask(REMOVE, { id: added.id });
  expect((await ada.ask(PASSKEYS)).passkeys).toEqual([]);
  expect((await log(admin.name)).at(-1)).toEqual([
    'remove_passkey',
    { passkey: Number(added.id), name: 'laptop', operator: ada.name },
  ]);
});

test('a removed operator has no passkey any more, nor has the next of the same name', async () => {
  const admin = await logIn(app, 'admin');
  const ada = await logIn(app, 'viewer');
  const { key } = await addPasskey(ada);
  await admin.ask('mutation ($name: String!) { removeOperator(name: $name) }', { name: ada.name });
  await expectRefusal(await signIn(key));
  await app.context.services.operators.addOperator(THE_OPERATOR, ada.name, 'viewer');
  await expectRefusal(await signIn(key));
});

test('only a young session of a link adds passkeys', async () => {
  const ada = await logIn(app, 'viewer');
  const { key } = await addPasskey(ada);
  const response = await signIn(key);
  const refused = await fetch(`${app.url}/dashboard/graphql`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin', cookie: sessionOf(response) },
    body: JSON.stringify({ query: 'mutation { beginPasskey }' }),
  });
  expect(((await refused.json()) as Json).errors).toMatchObject([
    { message: expect.stringContaining('within 30 minutes of a sign-in by a link'), extensions: { code: 'CONFLICT' } },
  ]);
  await sql(
    `UPDATE operator_sessions SET created_at = now() - interval '30 minutes'
     WHERE passkey_id IS NULL AND operator_id = (SELECT id FROM operators WHERE name = $1)`,
    ada.name,
  );
  expect(codesOf(await ada.graphql('mutation { beginPasskey }'))).toEqual(['CONFLICT']);
  expect(await begin(await logInAgain(app, ada.name))).toMatchObject({ user: { name: ada.name } });
});

test('an operator of the single sign-on has no passkey', async () => {
  const { name } = await logIn(app, 'viewer');
  await sql('UPDATE operators SET subject = $1 WHERE name = $2', `https://idp.example.com ${name}`, name);
  const answer = await (await logInAgain(app, name)).graphql('mutation { beginPasskey }');
  expect(answer.errors).toMatchObject([
    { message: expect.stringContaining('The single sign-on decides'), extensions: { code: 'CONFLICT' } },
  ]);
});

test('an operator has at most ten passkeys, also where many are added at a time', async () => {
  const ada = await logIn(app, 'viewer');
  for (let n = 0; n < 8; n += 1) await addPasskey(ada, `key ${n}`);
  const made = [];
  for (let n = 0; n < 4; n += 1) {
    const session = await logInAgain(app, ada.name);
    made.push({ session, credential: createAuthenticator().register(await begin(session), { origin: ORIGIN }) });
  }
  const answers = await Promise.all(
    made.map(({ session, credential }) => session.graphql(ADD, { name: 'more', ...credential })),
  );
  expect(answers.map((answer) => codesOf(answer)[0] ?? 'added').sort()).toEqual([
    'CONFLICT',
    'CONFLICT',
    'added',
    'added',
  ]);
  expect((await ada.ask(PASSKEYS)).passkeys).toHaveLength(10);
  const { errors } = await ada.graphql('mutation { beginPasskey }');
  expect(errors?.[0]?.message).toContain('at most 10 passkeys');
});

test('what is too long or no base64url is refused before it is decoded', async () => {
  const ada = await logIn(app, 'viewer');
  const { key } = await addPasskey(ada);
  for (const part of ['id', 'clientDataJSON', 'authenticatorData', 'signature', 'userHandle'])
    for (const wrong of ['A'.repeat(4_097), 'a b', '=', '', null, 7, {}, ['AAAA']]) {
      const { challenge, cookie } = await ask();
      await expectRefusal(
        await post('session', { ...key.sign({ origin: ORIGIN, challenge }), [part]: wrong }, { cookie }),
      );
    }
  for (const body of [null, [], 'text', {}]) await expectRefusal(await post('session', body));
  expect((await post('session', { id: 'A'.repeat(30_000) })).status).toBe(413);
  for (const change of [
    { name: '' },
    { name: ' x' },
    { name: 'x'.repeat(65) },
    { name: 'a\nb' },
    { id: 'A'.repeat(1_365) },
    { id: 'a b' },
    { clientDataJSON: 'A'.repeat(4_097) },
    { clientDataJSON: Buffer.from('no JSON').toString('base64url') },
    { clientDataJSON: Buffer.from('null').toString('base64url') },
    { attestationObject: 'A'.repeat(4_097) },
    { attestationObject: 'AAAA' },
  ]) {
    const credential = createAuthenticator().register(await begin(ada), { origin: ORIGIN });
    const answer = await ada.graphql(ADD, { name: 'x', ...credential, ...change });
    expect([change, codesOf(answer)]).toEqual([change, ['BAD_USER_INPUT']]);
  }
  const long = createAuthenticator({ idBytes: 1_023 }).register(await begin(ada), { origin: ORIGIN });
  expect(codesOf(await ada.graphql(ADD, { name: 'the longest ID', ...long }))).toEqual([]);
});

test('an address has twenty failed attempts a minute, and valid passkeys and links work all the same', async () => {
  await using own = await startTestApp({ env: HTTPS });
  const from = { 'x-forwarded-for': '192.0.2.3' };
  const { key } = await addPasskey(await logIn(own, 'viewer'));
  const refused = [];
  for (let tries = 0; tries < 21; tries += 1) refused.push((await post('session', {}, from, own)).status);
  expect(refused).toEqual([...Array(20).fill(401), 429]);
  const { challenge, cookie } = await ask(own, from);
  expect((await post('session', key.sign({ origin: ORIGIN, challenge }), { ...from, cookie }, own)).status).toBe(204);
  await logIn(own, 'viewer');
});

test('strangers fill the log of operators with 200 attempts a minute, from however many addresses', async () => {
  await using own = await startTestApp({ env: HTTPS });
  const [{ n: before }] = await sql(`SELECT count(*)::int AS n FROM operator_log WHERE actor = 'unknown'`);
  const statuses: Record<number, number> = {};
  for (let tries = 0; tries < 220; tries += 1) {
    const { status } = await post('session', {}, {}, own);
    statuses[status] = (statuses[status] ?? 0) + 1;
  }
  expect(statuses).toEqual({ 401: 200, 429: 20 });
  const [{ n }] = await sql(`SELECT count(*)::int AS n FROM operator_log WHERE actor = 'unknown'`);
  expect(n - before).toBe(200);
});

test('an operator signs in by a passkey twenty times a minute, and has a hundred sessions', async () => {
  const ada = await logIn(app, 'viewer');
  const { key } = await addPasskey(ada);
  const statuses = [];
  for (let times = 0; times < 21; times += 1) statuses.push((await signIn(key)).status);
  expect(statuses).toEqual([...Array(20).fill(204), 429]);
  await sql(
    `INSERT INTO operator_sessions (operator_id, token_hash, user_agent, expires_at)
     SELECT id, sha256(convert_to(name || n, 'UTF8')), '', now() + interval '1 hour' FROM operators, generate_series(1, 150) n WHERE name = $1`,
    ada.name,
  );
  const again = await logInAgain(app, ada.name);
  expect((await again.ask('{ sessions { id } }')).sessions).toHaveLength(100);
});

test('what is kept of challenges are those that were used, until they are late', async () => {
  const count = async () => (await sql('SELECT count(*)::int AS n FROM passkey_challenges'))[0].n;
  const { key } = await addPasskey(await logIn(app, 'viewer'));
  await sql('DELETE FROM passkey_challenges');
  expect((await signIn(key)).status).toBe(204);
  expect(await count()).toBe(1);
  await sql(`UPDATE passkey_challenges SET expires_at = now() - interval '1 ms'`);
  expect((await signIn(key)).status).toBe(204);
  expect(await count()).toBe(1);
});

test('requests of other sites get no challenge and no session', async () => {
  for (const path of ['challenge', 'session'])
    for (const headers of [{ 'sec-fetch-site': 'cross-site' }, { 'sec-fetch-site': 'same-site' }])
      expect((await post(path, {}, headers)).status).toBe(403);
});

test('challenges are kept as hashes only', async () => {
  const { key } = await addPasskey(await logIn(app, 'viewer'));
  const { challenge, cookie } = await ask();
  await post('session', key.sign({ origin: ORIGIN, challenge }), { cookie });
  const kept = await sql('SELECT c::text AS row FROM passkey_challenges c');
  expect(kept.length).toBeGreaterThan(0);
  expect(kept.filter(({ row }) => row.includes(challenge))).toEqual([]);
});

test('on this machine passkeys are of localhost, also where the page came from 127.0.0.1', async () => {
  await using own = await startTestApp({ env: { TRUST_PROXY: 'on' } });
  const origin = own.url.replace('127.0.0.1', 'localhost');
  expect(await (await fetch(`${own.url}/dashboard/config.json`)).json()).toMatchObject({ passkeys: origin });
  const ada = await logIn(own, 'viewer');
  const { key, added } = await addPasskey(ada, 'laptop', origin);
  expect(added.host).toBe('localhost');
  const { challenge, cookie } = await ask(own);
  expect(cookie).toMatch(/^userdir-dashboard-\d+-passkey=/);
  expect((await post('session', key.sign({ origin, challenge }), { cookie }, own)).status).toBe(204);
  // Not what a page of another server of this machine was given, even where a header names its port.
  const other = 'http://localhost:1';
  const stolen = async (headers: Record<string, string>) => {
    const { challenge: asked, cookie: kept } = await ask(own);
    return post('session', key.sign({ origin: other, challenge: asked }), { cookie: kept, ...headers }, own);
  };
  await expectRefusal(await stolen({}));
  expect((await stolen({ 'x-forwarded-host': 'localhost:1' })).status).toBe(409);
  // It is bound to that name, whatever its key signs.
  await expectRefusal(await signIn(key));
});

test.each<[string | null, string, string | null]>([
  ['https://users.example.com', '127.0.0.1:4000', 'https://users.example.com'],
  ['https://users.example.com', 'evil.example.com', 'https://users.example.com'],
  ['https://users.example.com:8443', 'localhost:4000', 'https://users.example.com:8443'],
  ['http://127.0.0.1:8080', 'localhost:4000', 'http://localhost:8080'],
  [null, '127.0.0.1:4000', 'http://localhost:4000'],
  [null, '[::1]:4000', 'http://localhost:4000'],
  // Browsers have no passkeys there, or the settings do not say the name.
  ['https://192.0.2.1', 'localhost:4000', null],
  ['https://[2001:db8::1]', 'localhost:4000', null],
  ['http://users.example.com', 'localhost:4000', null],
  [null, 'users.example.com', null],
  [null, '192.0.2.1:4000', null],
  [null, '', null],
  // Another server of this machine may have the other port.
  [null, 'localhost:4001', null],
  [null, 'localhost', null],
])('with PUBLIC_URL %s and the host %s, passkeys are of %s', (publicUrl, host, origin) => {
  const socket = { localPort: 4000 } as Socket;
  expect(siteOf(publicUrl, { host, socket })?.origin ?? null).toBe(origin);
});

test('without a name for the service there are no passkeys, and it says what to set', async () => {
  await using own = await startTestApp({ env: { PUBLIC_URL: 'https://192.0.2.1' } });
  expect(await (await fetch(`${own.url}/dashboard/config.json`)).json()).toMatchObject({ passkeys: null });
  const response = await post('challenge', {}, {}, own);
  expect([response.status, await response.json()]).toMatchObject([
    409,
    { error: { code: 'CONFLICT', message: expect.stringContaining('PUBLIC_URL') } },
  ]);
  expect(codesOf(await (await logIn(own, 'viewer')).graphql('mutation { beginPasskey }'))).toEqual(['CONFLICT']);
});
