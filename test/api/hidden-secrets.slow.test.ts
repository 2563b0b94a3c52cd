import { readFileSync } from 'node:fs';
import { buildSchema, getNamedType, isLeafType } from 'graphql';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type TestProject, useTestApp } from '../support/app.js';
import { startCollector } from '../support/collector.js';

/** No answer, log line or span repeats a secret or personal data, of whatever kind and wherever it was sent by mistake. */

// A standard OpenTelemetry variable: ended spans are sent after this many milliseconds.
vi.stubEnv('OTEL_BSP_SCHEDULE_DELAY', '20');
const collector = await startCollector();
const app = useTestApp({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url } });
let project: TestProject;
beforeAll(async () => {
  project = await app.createProject();
});
afterAll(() => collector.close().then(() => vi.unstubAllEnvs()));

const HEX = '8f2a559490d2c4a1e3b7f6058c9d1e2f3a4b5c6d7e8f90123456789abcdef012';
const PHRASE = 'legal winner thank year wave sausage worth useful legal winner thank yellow';
const KINDS = {
  'a private key': HEX,
  'a private key of Ethereum': `0x${HEX}`,
  'a private key in upper case, with one digit more': `${HEX.toUpperCase()}7`,
  'a seed phrase': PHRASE,
  'a seed phrase of 24 words': `${PHRASE} ${PHRASE.split(' ').reverse().join(' ')}`,
  'a seed phrase in lines': PHRASE.replaceAll(' ', '\n'),
  'a WIF': 'KwdMAjGmerYanjeui5SHS7JkmpZvVipYvB2LJGU1ZxJwYvP98617',
  'a Stellar seed': 'SAV76USXIJOBMEQXPANUOQM6F5LIOTLPDIDVRJBFFE2MDJXG24TAPUU7',
  'a JWT':
    'eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4ifQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c',
  'an App Secret': 'uds_Zm9yIGEgdGVzdCBvbmx5LCBub3QgYSBzZWNyZXQ',
  'an email': 'ada.lovelace@private.example.org',
  'a Stellar address': stellarAddress(77),
  'an Ethereum address': ethereumAddress(0xabcdef77),
};
const kinds = Object.entries(KINDS);

/** How much of a secret may be repeated by chance, such as a word of a phrase. */
const PART = 14;

/** The part of a secret that a text repeats; null for none. */
function partIn(text: string, secret: string): string | null {
  const parts = Array.from({ length: secret.length - PART + 1 }, (_, at) => secret.slice(at, at + PART));
  const decoded = text.replaceAll('\\n', '\n').replaceAll('%20', ' ').replaceAll('%0A', '\n').toLowerCase();
  return parts.find((part) => decoded.includes(part.toLowerCase())) ?? null;
}

async function ask(path: string, init: RequestInit = {}): Promise<string> {
  const headers = { ...project.credentials, 'userdir-cost': '1', ...(init.headers as object) };
  const response = await fetch(app.url + path, { ...init, headers, signal: AbortSignal.timeout(60_000) });
  if (response.headers.get('content-type')?.includes('event-stream') && response.ok) {
    const { value } = (await response.body?.getReader().read()) ?? {};
    return Buffer.from(value ?? []).toString();
  }
  return [...response.headers, await response.text()].join('\n');
}

const post = (path: string, body: string, headers = {}) =>
  ask(path, { method: 'POST', body, headers: { 'content-type': 'application/json', ...headers } });

/** Sends a secret in many ways; the answers that repeat a part of it. */
async function leaks(secret: string, requests: Record<string, () => Promise<string>>): Promise<string[]> {
  const found: string[] = [];
  const waiting = Object.entries(requests);
  const sendAll = async () => {
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      const [place, send] = next;
      const answer = await send();
      if (partIn(answer, secret) !== null) found.push(`${place}: ${answer.slice(answer.indexOf('{'), 600)}`);
    }
  };
  await Promise.all(Array.from({ length: 8 }, sendAll));
  return found;
}

describe.each(kinds)('%s is repeated by no answer', (_, secret) => {
  const text = JSON.stringify(secret);
  const encoded = encodeURIComponent(secret);
  // Headers have no line breaks.
  const line = secret.replaceAll('\n', ' ');

  test('over REST', async () => {
    const requests: Record<string, () => Promise<string>> = {
      'an unknown path': () => ask(`/${encoded}`),
      'an unknown path of REST': () => ask(`/server/${encoded}`),
      'an unknown guide': () => ask(`/docs/${encoded}`),
      'an unknown page': () => ask(`/dashboard/${encoded}`),
      'a path with broken escapes': () => ask(`/server/users/${encoded}%`),
      'a fragment': () => ask(`/server/users?x=%23${encoded}`),
      'a user ID': () => ask(`/server/users/${encoded}`),
      'the ID of a removal': () => ask(`/server/users/${encoded}`, { method: 'DELETE' }),
      'an unknown parameter': () => ask(`/server/users?${encoded}=1`),
      'a parameter in brackets': () => ask(`/server/users?limit[${encoded}]=1`),
      'a route without a method': () => ask(`/server/users/${encoded}`, { method: 'PUT' }),
      'an Idempotency-Key': () =>
        ask('/server/users/999999', { method: 'DELETE', headers: { 'idempotency-key': `é${line}` } }),
      'a content type': () => post('/server/wallets/verify', '{}', { 'content-type': `text/plain; charset=${line}` }),
      Accept: () => post('/graphql', '{}', { accept: line }),
      'a request ID': () => ask('/server/users/0', { headers: { 'x-request-id': line } }),
      'an App ID': () => ask('/server/users', { headers: { 'service-app-id': line } }),
      'a wrong secret': () => ask('/server/users', { headers: { 'service-app-secret': line } }),
      'a token': () => ask('/server/users', { headers: { 'service-app-id': '', authorization: `Bearer ${line}` } }),
      'a body that is no JSON': () => post('/server/wallets/verify', secret),
      'a body with a fault': () => post('/server/wallets/verify', `{"address": ${text}`),
      'a body that is a text': () => post('/server/wallets/verify', text),
    };
    for (const name of ['page', 'limit', 'start_date', 'end_date', 'login_method', 'email', 'address', 'order'])
      for (const route of ['users', 'users/count', 'users/search'])
        requests[`${name} of ${route}`] = () => ask(`/server/${route}?${name}=${encoded}&${name}=1${encoded}`);
    for (const name of ['after', 'types', 'limit', 'follow', 'last-event-id'])
      requests[`${name} of changes`] = () => ask(`/changes?${name}=${encoded}`);
    const bodies = [
      `{"address": ${text}}`,
      `{"address": [${text}]}`,
      `{"address": "x", "user_id": ${text}}`,
      `{"address": "x", ${text}: 1}`,
      `{"wallets": ${text}}`,
      `{"wallets": [${text}]}`,
      `{"wallets": [{"address": ${text}, "user_id": ${text}}, {${text}: 1}]}`,
      `{"wallets": [{"address": "${ethereumAddress(1)}", "user_id": ${text}}]}`,
    ];
    for (const body of bodies)
      for (const route of ['/server/wallets/verify', '/wallets/verify'])
        requests[`${body} to ${route}`] = () => post(route, body);
    expect(await leaks(secret, requests)).toEqual([]);
  });

  test('over GraphQL: as a value of each argument and each variable', async () => {
    const schema = buildSchema(readFileSync('schema.graphql', 'utf8'));
    const requests: Record<string, () => Promise<string>> = {};
    const graphql = (query: string, variables?: unknown) => post('/graphql', JSON.stringify({ query, variables }));
    const accept = { accept: 'text/event-stream, application/json;q=0.5' };
    for (const operation of ['query', 'mutation', 'subscription'] as const) {
      const headers = operation === 'subscription' ? accept : {};
      const send = (query: string, variables?: unknown) => () =>
        post('/graphql', JSON.stringify({ query, variables }), headers);
      for (const field of Object.values(schema.getRootType(operation as never)?.getFields() ?? {})) {
        const below = isLeafType(getNamedType(field.type)) ? '' : '{ __typename }';
        for (const { name, type } of field.args) {
          const start = `${operation} { ${field.name}(${name}:`;
          for (const value of [text, `[${text}]`, `{ a: ${text} }`, `[{ a: ${text} }]`, `"""${secret}"""`])
            requests[`${start} ${value}`] = send(`${start} ${value}) ${below} }`);
          const query = `${operation} ($v: ${type}) { ${field.name}(${name}: $v) ${below} }`;
          const values = [secret, [secret], [[secret]], { [secret]: 1 }, { a: secret }, [{ a: { [secret]: secret } }]];
          for (const value of [...values, secret.split(/\s/)])
            requests[`${query} ${JSON.stringify(value)}`] = send(query, { v: value });
        }
      }
    }
    for (const input of [
      { authMethod: `${secret}!`, authValue: '1' },
      { authMethod: 'email', authValue: secret },
      { authMethod: 'wallet', authValue: secret },
      { authMethod: 'github', authValue: '1', email: secret, wallet: secret },
      { authMethod: 'github', authValue: '1', wallet: secret },
      { authMethod: 'github', authValue: '1', externalId: `${secret}\0` },
      { authMethod: 'github', authValue: '1', accounts: [{ network: secret, publicKey: secret }] },
      { authMethod: 'github', authValue: '1', accounts: [{ network: 'STELLAR', publicKey: secret }] },
      { authMethod: 'github', authValue: '1', [secret]: secret },
    ])
      requests[`recordLogin ${JSON.stringify(input)}`] = () =>
        graphql('mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { created } }', { input });
    // Each of these meets a quarter of the kinds, and each kind a quarter of these.
    const first = kinds.findIndex(([, value]) => value === secret);
    const some = Object.entries(requests).filter((_, place) => place % 4 === first % 4);
    expect(await leaks(secret, Object.fromEntries(some))).toEqual([]);
  });

  test('over GraphQL: in the text of a document and around it', async () => {
    const word = secret.replace(/\W/g, '_').replace(/^(?=\d)/, 'x');
    const body = (value: object) => () => post('/graphql', JSON.stringify(value));
    const documents = [
      secret,
      `{ ${secret} }`,
      `{ ${text} }`,
      `{ userCount(${text}: 1) }`,
      `{ user(id: 1 ${text}) { id } }`,
      `{ user(id: ${secret}) { id } }`,
      `{ userCount(filter: { loginMethods: [${text}] }) }`,
      `query ${text} { userCount }`,
      `{ user(id: "${secret}`,
      ...[
        '{ W }',
        '{ user(W: 1) { id } }',
        '{ user(id: W) { id } }',
        '{ userCount @W }',
        '{ ...W }',
        'W { userCount }',
      ],
      ...['query ($W: ID) { userCount }', 'query ($a: W) { userCount }', '{ user(id: $W) { id } }'],
      ...['fragment W on User { id } { userCount }', '{ ... on W { id } }', '{ userCount(filter: { W: 1 }) }'],
      ...['{ user(id: 1) { W } }', '{ userCount(filter: { loginMethods: [W] }) }', '{ W: user(id: "x") { id W } }'],
      ...[
        'mutation W { deleteUser(id: "x") { id } }',
        'query W { user(id: "x") { id } }',
        'query W { a } query W { b }',
      ],
    ].map((document) => document.replaceAll('W', word));
    const requests: Record<string, () => Promise<string>> = {
      variables: body({ query: '{ userCount }', variables: secret }),
      operationName: body({ query: 'query A { userCount } query B { userCount }', operationName: secret }),
      'the name of the only operation': body({ query: `query ${word} { userCount }`, operationName: 'A' }),
      'a name of one of two': body({ query: `query ${word} { a: userCount } query B { b: userCount }` }),
      extensions: body({ query: '{ userCount }', extensions: { persistedQuery: { version: 1, sha256Hash: secret } } }),
      'extensions alone': body({ extensions: { persistedQuery: { version: secret, sha256Hash: secret } } }),
      documentId: body({ documentId: secret }),
      'an unknown parameter': body({ query: '{ userCount }', [secret]: secret }),
      'a query that is no text': body({ query: { [secret]: secret } }),
      'a list': () => post('/graphql', JSON.stringify([secret])),
      'a query in the URL': () => ask(`/graphql?query=${encoded}&variables=${encoded}&operationName=${encoded}`),
      'variables in the URL': () => ask(`/graphql?query=%7BuserCount%7D&variables=${encoded}`),
    };
    for (const document of documents) requests[document] = body({ query: document });
    // What a document calls a field is the key in its answer.
    delete requests[`{ ${word}: user(id: "x") { id ${word} } }`];
    expect(await leaks(secret, requests)).toEqual([]);
  });
});

test('nor by the log, nor by traces', async () => {
  const requestId = crypto.randomUUID();
  await ask('/livez', { headers: { 'x-request-id': requestId } });
  await collector.find((all) => all.find((span) => span.attributes['userdir.request_id'] === requestId));
  const [log, spans] = [app.logged.join(''), collector.text()];
  expect(log).toContain(requestId);
  for (const [kind, secret] of kinds)
    expect([kind, partIn(log, secret), partIn(spans, secret)]).toEqual([kind, null, null]);
});
