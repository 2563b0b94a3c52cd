import { maxHeaderSize } from 'node:http';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { HEADER_BYTES } from '#dist/domain/bounds.js';
import { AppError, badInput, type ErrorCode, fromUnknown, redact, show } from '#dist/errors.js';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';

const MASKED = 'The service could not complete the request.';

test.each<[ErrorCode, number]>([
  ['BAD_USER_INPUT', 400],
  ['UNAUTHENTICATED', 401],
  ['BANNED', 403],
  ['NOT_FOUND', 404],
  ['PATH_NOT_FOUND', 404],
  ['METHOD_NOT_ALLOWED', 405],
  ['REQUEST_TIMEOUT', 408],
  ['CONFLICT', 409],
  ['PAYLOAD_TOO_LARGE', 413],
  ['UNSUPPORTED_MEDIA_TYPE', 415],
  ['RATE_LIMITED', 429],
  ['HEADERS_TOO_LARGE', 431],
  ['UNAVAILABLE', 503],
])('%s has status %i, and the caller sees its message', (code, status) => {
  expect(new AppError(code, 'A reason.')).toMatchObject({ code, status, publicMessage: 'A reason.' });
});

test('INTERNAL_SERVER_ERROR has status 500, and the caller does not see its message', () => {
  const error = new AppError('INTERNAL_SERVER_ERROR', 'connection to 10.0.0.7 refused');
  expect(error).toMatchObject({ status: 500, publicMessage: MASKED });
});

test('the headers of a request are at most as long as Node.js takes them', () => {
  expect(HEADER_BYTES).toBe(maxHeaderSize);
});

test('an error keeps its cause and its headers', () => {
  const cause = new Error('below');
  const error = new AppError('METHOD_NOT_ALLOWED', 'No.', { cause, headers: { allow: 'GET' } });
  expect(error).toMatchObject({ cause, headers: { allow: 'GET' } });
  expect(new AppError('NOT_FOUND', 'No.').headers).toEqual({});
});

describe('an unknown failure', () => {
  test.each([413, 415, 404, 400, 499])('of the HTTP layer with status %i has a public message', (statusCode) => {
    const codes: Record<number, ErrorCode> = {
      413: 'PAYLOAD_TOO_LARGE',
      415: 'UNSUPPORTED_MEDIA_TYPE',
      404: 'PATH_NOT_FOUND',
    };
    const cause = Object.assign(new Error('What the layer says.'), { statusCode });
    const failure = fromUnknown(cause);
    expect(failure).toMatchObject({ code: codes[statusCode] ?? 'BAD_USER_INPUT', cause });
    expect(failure.publicMessage).not.toBe('');
  });

  test.each([
    ['an error', new Error('password=hunter2')],
    ['an error with status 500', Object.assign(new Error('password=hunter2'), { statusCode: 500 })],
    ['an error with a status that is no number', Object.assign(new Error('password=hunter2'), { statusCode: '400' })],
    ['text', 'password=hunter2'],
    ['null', null],
    ['undefined', undefined],
  ])('that is %s is internal: the log keeps its cause, and the caller does not see its message', (_name, cause) => {
    const failure = fromUnknown(cause);
    expect(failure).toMatchObject({ code: 'INTERNAL_SERVER_ERROR', status: 500, publicMessage: MASKED });
    expect(failure.message).not.toContain('hunter2');
    expect(failure.cause).toBe(cause);
  });

  test('of any type becomes an AppError', () => {
    fc.assert(
      fc.property(fc.anything({ withNullPrototype: true, withBigInt: true }), (thrown) => {
        expect(fromUnknown(thrown)).toBeInstanceOf(AppError);
      }),
    );
  });
});

describe('an address in a message', () => {
  const [stellar, ethereum] = [stellarAddress(7), ethereumAddress(7)];
  test.each([
    ['as it is', (address: string) => address],
    [
      'with one letter in lower case',
      (address: string) => address.slice(0, 9) + address.slice(9).replace(/[A-Z]/, 'b'),
    ],
    ['with a character that it cannot have', (address: string) => `${address.slice(0, 9)}z${address.slice(10)}`],
    ['without one character', (address: string) => address.slice(0, 20) + address.slice(21)],
    ['with one character more', (address: string) => `${address}4`],
    ['in lower case', (address: string) => address.toLowerCase()],
    ['in upper case', (address: string) => address.toUpperCase()],
    ['that lost its last ten characters', (address: string) => address.slice(0, -10)],
  ])('is masked: %s', (_how, mistype) => {
    for (const address of [stellar, ethereum]) {
      expect(redact(mistype(address))).toBe('[address]');
      expect(redact(`("${mistype(address)}", \\n${mistype(address)})`)).toBe('("[address]", \\n[address])');
    }
  });

  test.each([
    'getEveryUserWithTheAccountsAndTheWalletsOfProject2',
    'google-oauth2|103547991597142817347',
    'f4b6c1de-6a35-4c5f-9a57-2f0c8d3b7e10',
    '4bf92f3577b34da6a3ce929d0e0e4736',
    'MTc5MTA5ODI4MTg0My41My5kMTRrZDY',
    '0x1f0d56F79b837F4f',
    `0${'x'.repeat(60)}`,
    'GA6OY2MRIHFBF336',
  ])('is told from a name or an ID: %s', (text) => {
    expect(redact(text)).toBe(text);
  });
});

describe('a value in a message', () => {
  test.each([
    [undefined, 'nothing'],
    [null, 'null'],
    ['', '""'],
    ['a "b"', '"a \\"b\\""'],
    ['two\nlines\0', '"two\\nlines\\u0000"'],
    [1.5, '1.5'],
    [['a', 1], '["a",1]'],
    ['x'.repeat(40), `"${'x'.repeat(40)}"`],
    // Of a longer one, only the length: a part of a secret is a secret. Escapes are counted as what they stand for.
    ['x'.repeat(41), 'a text of 41 characters'],
    ['x'.repeat(256), 'a text of 256 characters'],
    ['\n'.repeat(41), 'a text of 41 characters'],
    [`${'x'.repeat(39)}\n`, 'a text of 40 characters'],
    // What is hidden may be longer.
    [`uds_${'a'.repeat(252)}`, '"[secret]"'],
    [`uds_${'a'.repeat(500)}`, 'a text of 504 characters'],
    [`ada@example.com ${'x'.repeat(32)}`, `"[email] ${'x'.repeat(32)}"`],
    [`\nuds_${'a'.repeat(12)}`, '"\\n[secret]"'],
    [`\n${`G${'A'.repeat(55)}`} \t0x${'a'.repeat(40)}`, '"\\n[address] \\t[address]"'],
    [['x'.repeat(100)], 'JSON of 104 characters'],
    [{ a: 'x"'.repeat(50) }, 'JSON of 158 characters'],
    [Array(30).fill(1), 'JSON of 61 characters'],
    [{ 'ada@example.com': ['eve@example.com'] }, '{"[email]":["[email]"]}'],
  ])('%j is shown as %j', (value, shown) => {
    expect(show(value)).toBe(shown);
  });

  test('is shown in at most 42 characters on one line', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 500 }), (value) => {
        expect(show(value)).toMatch(/^.{0,42}$/u);
      }),
    );
  });

  test('is followed by what is accepted', () => {
    expect(badInput('limit', '0', 'a whole number from 1 to 100')).toMatchObject({
      code: 'BAD_USER_INPUT',
      publicMessage: 'limit: got "0", expected a whole number from 1 to 100.',
    });
  });
});

test('a path of a package with a scope is no email, and every email beside one is hidden', () => {
  const path = 'at file:///app/node_modules/@prisma/client/runtime/client.js:1:2';
  expect(redact(path)).toBe(path);
  expect(redact('file:///users/ada@example.com/x.js')).not.toContain('ada@');
  expect(redact('a/@example.com/x')).not.toContain('example.com');
  expect(redact(`${path} of ada@example.com`)).toBe(`${path} of [email]`);
});
