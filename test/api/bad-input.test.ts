import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { basic, expectError, verify } from '../support/rest.js';

/** Hostile and malformed requests over REST: a 4xx with `{"error"}`, never a 500, a stack or a hang. */

const app = useTestApp();
let project: TestProject;
beforeAll(async () => {
  project = await app.createProject();
  await project.addUsers({ auth_method: 'wallet', auth_value: stellarAddress(1) });
});
// After every test, the server still answers requests.
afterEach(async () => {
  expect((await project.rest('/server/users/count')).body.result).toEqual({ total_user: 1 });
});

const VERIFY = '/server/wallets/verify';
const JSON_TYPE = { 'content-type': 'application/json' };

const post = (body: string | Uint8Array<ArrayBuffer>, headers: Record<string, string> = JSON_TYPE) =>
  project.rest(VERIFY, { method: 'POST', body, headers });

/** The same request without credentials. */
async function anonymous(path: string, init: RequestInit = {}) {
  const answer = await fetch(app.url + path, init);
  return { status: answer.status, body: await answer.json() };
}

describe('every 400 in the contract names the parameter, the received value and the accepted values', () => {
  const addressForms =
    'expected a Stellar address (G and 55 more characters) or an Ethereum address (0x and 40 hex digits)';
  const dateForms = 'expected a date (2026-01-31) or an RFC 3339 date-time (2026-01-31T12:00:00Z).';
  test.each([
    ['/server/users?start_date=soon', `start_date: got "soon", ${dateForms}`],
    ['/server/users?start_date=2026-2-3', `start_date: got "2026-2-3", ${dateForms}`],
    ['/server/users/count?end_date=2026-02-30', 'end_date: got "2026-02-30", expected a date that exists.'],
    [
      '/server/users?start_date=2026-01-31T24:00:00Z',
      'start_date: got "2026-01-31T24:00:00Z", expected a date and a time that exist.',
    ],
    [
      '/server/users?login_method=fax',
      'login_method: got "fax", expected email, passkey, wallet, socials, or several of them separated by commas.',
    ],
    ['/server/users?page=zero', 'page: got "zero", expected a whole number from 1 to 9007199254740991.'],
    ['/server/users?limit=101', 'limit: got "101", expected a whole number from 1 to 100.'],
    ['/server/users?limit=1&limit=2', 'limit: got ["1","2"], expected a whole number from 1 to 100.'],
    ['/server/users/me', 'user_id: got "me", expected decimal digits, 1 and up.'],
    ['/server/users/search', 'email, address: got neither, expected exactly one of the two.'],
    ['/server/users/search?email=ada', 'email: got "ada", expected an email address.'],
    [
      `/server/users/search?email=ada@${'a'.repeat(400)}.example`,
      'email: got a text of 412 characters, expected an email address of at most 320 characters.',
    ],
    [
      `/server/users/search?email=${'a'.repeat(65)}@example.com`,
      'email: got "a[email]", expected an email address with at most 64 characters before the @.',
    ],
    ['/server/users/search?email=a@b.c&email=d@e.f', 'email: got ["a@b.c","d@e.f"], expected one email address.'],
    [
      '/server/users/search?email=ada+work@example.com',
      'email: got "ada [email]", expected an email address without blanks; in a URL, + must be sent as %2B.',
    ],
    ['/server/users/search?address=+G', `address: got a text with blanks around it, ${addressForms}; `],
    ['/server/users/search?address=0xyz', `address: got "0xyz", ${addressForms}; `],
  ])('%s', async (path, sentence) => {
    const error = expectError(await project.rest(path), 400);
    expect(error.slice(0, sentence.length)).toBe(sentence);
  });

  test.each([
    [{}, `address: got nothing, ${addressForms}.`],
    [{ address: 5 }, `address: got 5, ${addressForms}.`],
    [
      { address: stellarAddress(1), user_id: '7' },
      'user_id: got "7", expected a whole number without quotes, 1 and up.',
    ],
    [[], 'body: got [], expected a JSON object with content-type application/json.'],
  ])('verify %j', async (body, sentence) => {
    expect(expectError(await verify(project, body), 400)).toBe(sentence);
  });

  test.each([
    ['/server/wallets/verify', 400],
    ['/wallets/verify', 415],
  ])(
    'a body for %s in another content type is refused with the type that was sent, and an absent one as absent',
    async (path, refused) => {
      const post = (type: string | undefined, body: string | Buffer) =>
        project.rest(path, { method: 'POST', body, ...(type !== undefined && { headers: { 'content-type': type } }) });
      const given = JSON.stringify({ address: stellarAddress(1) });
      for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/vnd.api+json'])
        expect(expectError(await post(type, given), refused)).toBe(
          `content-type: got "${type}", expected application/json.`,
        );
      expect(expectError(await post(undefined, Buffer.from(given)), refused)).toBe(
        'content-type: got nothing, expected application/json.',
      );
      for (const absent of [post('application/json', ''), project.rest(path, { method: 'POST' })])
        expect(expectError(await absent, 400)).toBe(
          'body: got nothing, expected a JSON object with content-type application/json.',
        );
    },
  );

  test('a request with several errors reports each of them once', async () => {
    const error = expectError(await project.rest('/server/users?page=-1&limit=-2&start_date=x'), 400);
    expect(error.match(/\w+: got "[^"]*"/g)?.sort()).toEqual([
      'limit: got "-2"',
      'page: got "-1"',
      'start_date: got "x"',
    ]);
  });

  const long = 'x'.repeat(8_000);
  test.each([
    `/server/users?page=${long}`,
    `/server/users?start_date=${long}`,
    `/server/users?login_method=${long}`,
    `/server/users/${long}`,
    `/server/users/search?email=${long}`,
    `/server/users/search?address=${long}`,
    `/server/users?page=${'1&page='.repeat(1_000)}`,
  ])('of a long value, the error tells the length: %.60s', async (path) => {
    const error = expectError(await project.rest(path), 400);
    expect(error).toMatch(/ got (a text of 8000|JSON of \d+) characters, /);
    expect(error.length).toBeLessThan(400);
  });

  test('a long value is also short in a 404 and when it comes from a body', async () => {
    expect(expectError(await project.rest(`/server/users/${'9'.repeat(8_000)}`), 404).length).toBeLessThan(100);
    expect(expectError(await verify(project, { address: 'G'.repeat(900_000) }), 400).length).toBeLessThan(400);
  });
});

describe('every text has a maximum length, and one more character is 400', () => {
  const address = stellarAddress(1);
  const a = (length: number) => 'a'.repeat(length);
  test.each([
    ['email', `/server/users/search?email=${a(64)}@${a(255)}`, `/server/users/search?email=${a(64)}@${a(256)}`],
    ['page', `/server/users?page=${'1'.padStart(16, '0')}`, `/server/users?page=${'1'.padStart(17, '0')}`],
    ['limit', `/server/users?limit=${'1'.padStart(16, '0')}`, `/server/users?limit=${'1'.padStart(17, '0')}`],
    [
      'start_date',
      `/server/users?start_date=2026-01-01T00:00:00.${'0'.repeat(43)}Z`,
      `/server/users?start_date=2026-01-01T00:00:00.${'0'.repeat(44)}Z`,
    ],
    [
      'login_method',
      `/server/users?login_method=${Array(32).fill('passkey').join(',')}`,
      `/server/users?${Array(33).fill('login_method=passkey').join('&')}`,
    ],
  ])('%s', async (name, accepted, refused) => {
    expect((await project.rest(accepted)).status).toBe(200);
    expect(expectError(await project.rest(refused), 400)).toMatch(new RegExp(`^${name}: got .*, expected `));
  });

  test('an address of more than 128 characters is refused for its length, without a detailed reason', async () => {
    expect(expectError(await verify(project, { address: `G${a(127)}` }), 400)).toContain('this has 128');
    expect(expectError(await verify(project, { address: `G${a(128)}` }), 400)).toContain(
      'an address has at most 128 characters',
    );
    expect(expectError(await project.rest(`/server/users/search?address=${address}${a(9_000)}`), 400)).toContain(
      'an address has at most 128 characters',
    );
  });

  test('an Idempotency-Key has at most 255 characters', async () => {
    const remove = (key: string) =>
      project.rest('/server/users/999999999', { method: 'DELETE', headers: { 'idempotency-key': key } });
    expectError(await remove(a(255)), 404);
    expect(expectError(await remove(a(256)), 400)).toMatch(/^Idempotency-Key: got .*, expected 1 to 255 printable/);
  });

  test('an App ID or App Secret that is too long is refused like a wrong one', async () => {
    for (const [id, secret] of [
      [project.appId, a(8_000)],
      [a(8_000), project.appSecret],
      [`${project.appId}${a(65)}`, project.appSecret],
    ] as const) {
      const headers = { 'service-app-id': id, 'service-app-secret': secret };
      for (const credentials of [headers, basic(`${id}:${secret}`)]) {
        const { status, body } = await anonymous('/server/users/count', { headers: credentials });
        expect(expectError({ status, body }, 401)).toBe(
          'The App ID and the App Secret do not belong together: check that both are of one project of this service, and that the secret has not ended.',
        );
      }
    }
  });

  test('a 401 says what the form of wrong credentials shows, and the same of an App ID that does not exist', async () => {
    const swapped =
      'An App ID begins with app_ and an App Secret with uds_: the two look swapped, or one is in both places.';
    const quoted = 'has quotes around it: send it without them.';
    const spaced = 'has white space around it, such as a line break at its end.';
    const stranger = await app.createProject();
    const { appId, appSecret } = project;
    const unknown = `app_${'0'.repeat(24)}`;
    const other = appSecret.slice(0, 10) + (appSecret[10] === 'A' ? 'B' : 'A') + appSecret.slice(11);
    for (const [id, secret, hint] of [
      [appId, stranger.appSecret, ''],
      [appId, `uds_${'a'.repeat(43)}`, 'The App Secret looks cut or mistyped.'],
      [appId, 'wrong', ''],
      [appSecret, appId, swapped],
      [appId, appId, swapped],
      [appSecret, appSecret, swapped],
      [appId, `"${appSecret}"`, `The App Secret ${quoted}`],
      [appId, `'${appSecret}`, `The App Secret ${quoted}`],
      [`"${appId}"`, appSecret, `The App ID ${quoted}`],
      [appId, `${appSecret}\n`, `The App Secret ${spaced}`],
      [`${appId} `, appSecret, `The App ID ${spaced}`],
      [appId, appSecret.slice(0, -1), 'The App Secret looks cut or mistyped.'],
      [appId, appSecret.slice(0, 20), 'The App Secret looks cut or mistyped.'],
      [appId, other, 'The App Secret looks cut or mistyped.'],
      [appId.slice(0, -1), appSecret, 'The App ID looks cut or mistyped.'],
    ] as const) {
      for (const [sentId, sentSecret] of [
        [id, secret],
        [id.replace(appId, unknown), secret],
      ] as const) {
        const headers = basic(`${sentId}:${sentSecret}`);
        const { status, body } = await anonymous('/server/users/count', { headers });
        const message = `The App ID and the App Secret do not belong together: check that both are of one project of this service, and that the secret has not ended.${hint && ` ${hint}`}`;
        expect(expectError({ status, body }, 401), JSON.stringify([sentId, sentSecret])).toBe(message);
      }
    }
  });

  test('a 401 says which of the two credentials is missing, also where it is sent empty', async () => {
    const secretIsMissing =
      'The App Secret is missing: send it in the header service-app-secret, or as the password of HTTP Basic.';
    const idIsMissing =
      'The App ID is missing: send it in the header service-app-id, or as the user name of HTTP Basic.';
    const bothAreMissing =
      'Credentials are missing: send the headers service-app-id and service-app-secret, or HTTP Basic with the App ID and the App Secret.';
    const noBearer = 'Authorization: Bearer is not supported';
    const notBasic = 'The header authorization is not "Basic" with the Base64 of APP_ID:APP_SECRET';
    const { appId, appSecret } = project;
    for (const [headers, message] of [
      [{}, bothAreMissing],
      [{ 'service-app-id': '', 'service-app-secret': '' }, bothAreMissing],
      [basic(':'), bothAreMissing],
      [{ authorization: `Bearer ${appSecret}` }, bothAreMissing.replace('Credentials are missing', noBearer)],
      [{ authorization: `Basic ${appId}:${appSecret}` }, bothAreMissing.replace('Credentials are missing', notBasic)],
      [{ 'service-app-id': appId }, secretIsMissing],
      [{ 'service-app-id': appId, 'service-app-secret': '' }, secretIsMissing],
      [{ 'service-app-id': appId, ...basic(`${appId}:${appSecret}`) }, secretIsMissing],
      [basic(appId), secretIsMissing],
      [basic(`${appId}:`), secretIsMissing],
      [{ 'service-app-secret': appSecret }, idIsMissing],
      [basic(`:${appSecret}`), idIsMissing],
    ] as const) {
      const { status, body } = await anonymous('/server/users/count', { headers });
      expect(expectError({ status, body }, 401), JSON.stringify(headers)).toBe(message);
    }
  });

  test('an id of thousands of digits is never converted to a number', async () => {
    const id = '9'.repeat(12_000);
    expect(expectError(await project.rest(`/server/users/${id}`), 404)).toBe(
      'There is no user in this project with an ID above 9007199254740991.',
    );
    expectError(await project.rest(`/server/users/${'0'.repeat(12_000)}`), 400);
    const { body } = await project.rest('/server/users?limit=1');
    const padded = `${'0'.repeat(5_000)}${body.result.users[0].id}`;
    expect((await project.rest(`/server/users/${padded}`)).status).toBe(200);
  });

  test('the OpenAPI document states these maximum lengths', async () => {
    const { paths } = (await (await fetch(`${app.url}/openapi.json`)).json()) as Json;
    const lengthOf = (path: string, method: string, name: string) =>
      paths[path][method].parameters.find((each: { name: string }) => each.name === name).schema.maxLength;
    expect([
      lengthOf('/server/users', 'get', 'start_date'),
      lengthOf('/server/users', 'get', 'end_date'),
      lengthOf('/server/users/count', 'get', 'login_method'),
      lengthOf('/server/users/search', 'get', 'email'),
      lengthOf('/server/users/search', 'get', 'address'),
      lengthOf('/server/users/{user_id}', 'delete', 'Idempotency-Key'),
    ]).toEqual([64, 64, 256, 320, 128, 255]);
    const body = paths['/server/wallets/verify'].post.requestBody.content['application/json'].schema;
    expect([body.additionalProperties, body.properties.address.maxLength]).toEqual([false, 128]);
  });
});

describe('URLs', () => {
  test.each(
    `/server/users/%FF /server/users/% /server/users/%zz /server/users/%E0%A4%A /server/users/%C0%AF
    /server/users/%ED%A0%80 /server/users?page=%FF /server/users?page=1%
    /server/users/count?login_method=%u0065mail /server/users/search?email=%FF@example.com
    /server/users/search?%FF=1 /server/nothing/%FF`.split(/\s+/),
  )('malformed percent-encoding is 400, and 401 without credentials: %s', async (path) => {
    expect(expectError(await project.rest(path), 400)).toBe('The URL is not percent-encoded UTF-8.');
    expectError(await anonymous(path), 401);
  });

  test('names of prototype properties are unknown parameters', async () => {
    const query =
      '__proto__=1&__proto__[page]=0&constructor=1&constructor.prototype.page=0&toString=1&hasOwnProperty=1';
    expect((await project.rest(`/server/users?${query}`)).body.result).toMatchObject({ page: 1, total_user: 1 });
  });
});

describe('bodies', () => {
  const bytes = (...values: number[]) => Uint8Array.from(values);
  const address = stellarAddress(1);
  test.each([
    ['nothing', ''],
    ['a brace', '{'],
    ['two values', '{}{}'],
    ['a comment', `{"address":"${address}"/**/}`],
    ['a trailing comma', `{"address":"${address}",}`],
    ['NaN', `{"address":"${address}","user_id":NaN}`],
    ['a leading zero', `{"address":"${address}","user_id":01}`],
    ['a hexadecimal number', `{"address":"${address}","user_id":0x1}`],
    ['a raw line feed in a string', '{"address":"\n"}'],
    ['a raw NUL', '{"address":"\0"}'],
    ['NUL bytes alone', '\0\0\0\0'],
    ['a key __proto__', `{"address":"${address}","__proto__":{"user_id":1}}`],
    ['an escaped key __proto__', `{"address":"${address}","\\u005f_proto__":{"user_id":1}}`],
    ['a key constructor.prototype', `{"address":"${address}","constructor":{"prototype":{"user_id":1}}}`],
    ['a byte that is no UTF-8', bytes(0x22, 0xff, 0x22)],
    ['an overlong form', bytes(0x22, 0xc0, 0xaf, 0x22)],
    ['a surrogate in UTF-8', bytes(0x22, 0xed, 0xa0, 0x80, 0x22)],
    ['half a character', bytes(0x22, 0xe2, 0x82)],
    ['UTF-16', bytes(0xff, 0xfe, 0x7b, 0x00, 0x7d, 0x00)],
    ['gzip', bytes(0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00)],
  ])('a body that is not JSON is 400, and 401 without credentials: %s', async (_what, body) => {
    expectError(await post(body), 400);
    expectError(await anonymous(VERIFY, { method: 'POST', body, headers: JSON_TYPE }), 401);
  });

  const deep = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);

  test.each([
    [`{"address": ${'x'.repeat(56)}}`, 'line 1, column 13: expected a value'],
    [`{"address": "${'x'.repeat(56)}", user_id: 1}`, 'line 1, column 73: expected a key in double quotes'],
    [` \n\t{"address":\n"${'x'.repeat(56)}"`, 'line 3, column 59, where it ends: expected "," or "}"'],
  ])(
    'malformed JSON is 400, and the error says where and what is accepted, but not what arrived: %j',
    async (body, fault) => {
      const message = `The body is not valid JSON: ${fault}.`;
      expect(expectError(await post(body), 400)).toBe(message);
      const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body };
      expect(expectError(await project.rest('/wallets/verify', init), 400)).toBe(message);
      const response = await fetch(`${app.url}/graphql`, {
        ...init,
        headers: { ...init.headers, ...project.credentials },
      });
      const { errors } = (await response.json()) as Json;
      expect([response.status, errors[0].message]).toEqual([400, message]);
    },
  );

  test.each([
    ['/server/wallets/verify', 1_048_576],
    ['/wallets/verify', 262_144],
    ['/graphql', 262_144],
  ])('a body that is too large is 413, and the error says how large it may be: %s', async (path, limit) => {
    const ask = async (init: RequestInit) => {
      const headers = { ...project.credentials, 'content-type': 'application/json' };
      const response = await fetch(app.url + path, { method: 'POST', headers, ...init });
      const { error, errors } = (await response.json()) as Json;
      return [response.status, error ?? errors[0].message];
    };
    const body = ' '.repeat(limit + 1);
    expect(await ask({ body })).toEqual([413, `body: got ${limit + 1} bytes, expected at most ${limit} bytes.`]);
    const chunked = { body: new Blob([body]).stream(), duplex: 'half' } as RequestInit;
    expect(await ask(chunked)).toEqual([413, `body: got more, expected at most ${limit} bytes.`]);
  });

  test('a body over 16 KiB is 400 and is not parsed', async () => {
    const repeated = `{${'"a":1,'.repeat(100_000)}"address":"${address}"}`;
    const different = `{${Array.from({ length: 100_000 }, (_, key) => `"${key}":1,`).join('')}"address":"${address}"}`;
    for (const body of [repeated, different, `{"address":"${address}"}${'x'.repeat(20_000)}`]) {
      expect(expectError(await post(body), 400)).toBe(`body: got ${body.length} bytes, expected at most 16384.`);
    }
  });

  test('thousands of unknown keys are 400, and the error names five of them by their length', async () => {
    const keys = Array.from({ length: 1_000 }, (_, key) => `${key}${'x'.repeat(100)}`);
    const unknown = { address, ...Object.fromEntries(keys.slice(0, 100).map((key) => [key, 1])) };
    const error = expectError(await verify(project, unknown), 400);
    expect(error).toBe(
      `body: got the unknown key ${Array(5).fill('a text of 101 characters').join(', ')} and 95 more, expected only address and user_id.`,
    );
    expect(error.length).toBeLessThan(500);
  });

  test('a body may have 32 levels of nesting, and brackets inside strings do not count', async () => {
    expect(expectError(await post(deep(32)), 400)).toContain('expected a JSON object');
    expect(expectError(await post(deep(33)), 400)).toBe('The body nests deeper than 32 levels.');
    const url = `/graphql?query={userCount}&variables=${encodeURIComponent(`{"a":${deep(33)}}`)}`;
    const { body } = await project.rest(url);
    expect(body.errors[0].message).toBe('variables nests deeper than 32 levels.');
    const text = JSON.stringify({ address: `\\"${'['.repeat(100)}` });
    expect(expectError(await post(text), 400)).toMatch(/^address: got /);
  });

  test('a body on a route that takes none is ignored if it is valid JSON, and 400 if it is not', async () => {
    const answer = await project.rest('/server/users/999999999', { method: 'DELETE', body: '{}', headers: JSON_TYPE });
    expectError(answer, 404);
    const broken = await project.rest('/server/users/999999999', { method: 'DELETE', body: '{', headers: JSON_TYPE });
    expectError(broken, 400);
  });
});
