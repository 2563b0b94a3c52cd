import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CSV_HEAD, formatCsvUser, formatLine, IMPORT_FIELDS } from '#dist/domain/import-format.js';
import { type ImportField, openSheet, type Sheet, toNdjson } from '../../src/dashboard/pages/csv.js';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';

type User = Parameters<typeof formatCsvUser>[0];

const FIELDS = IMPORT_FIELDS.map((field) => ({ ...field, form: field.form.toUpperCase() as ImportField['form'] }));
const fieldsOf = (names: readonly string[]) => names.map((name) => FIELDS.find((field) => field.name === name));

/** The lines of the import that a file becomes, by their numbers, and what is wrong with its rows. */
async function convert(
  text: string | Uint8Array<ArrayBuffer>,
  always = {},
  delimiter: string | null = null,
  titles?: string[],
) {
  const file = new Blob([text]);
  const sheet: Sheet = await openSheet(file, delimiter);
  const { body, faults } = await toNdjson(file, sheet, {
    hasTitles: titles === undefined,
    columns: fieldsOf(titles ?? sheet.first.cells),
    always,
    signal: new AbortController().signal,
    onProgress: () => undefined,
  });
  const lines = (await body.text()).split('\n').map((line, index) => [index + 1, line] as const);
  const users = new Map(lines.filter(([, line]) => line !== '').map(([line, json]) => [line, JSON.parse(json)]));
  return { sheet, users, faults: Object.fromEntries(faults) };
}

const hostile = fc.constantFrom(
  ...[
    '"',
    ',',
    ';',
    '|',
    "'",
    '=',
    '+',
    '-',
    '@',
    '\t',
    '\r',
    '\n',
    ' ',
    '\ufeff',
    'é',
    '😀',
    '\\',
    ...'0 1 . : E ＝'.split(' '),
  ],
);
const text = fc.oneof(fc.string({ unit: hostile, maxLength: 12 }), fc.string({ unit: 'grapheme', maxLength: 20 }));
const instant = fc.date({ min: new Date(0), noInvalidDate: true }).map((date) => date.toISOString());
const users: fc.Arbitrary<User> = fc.record({
  id: fc.nat(),
  auth_method: fc.constantFrom('email', 'passkey', 'google'),
  auth_value: text,
  email: fc.option(text),
  wallet: fc.option(fc.constantFrom(stellarAddress(1), ethereumAddress(1))),
  created_at: instant,
  last_login: fc.option(instant),
  login_count: fc.nat(2 ** 31 - 1),
  external_id: fc.option(text),
  email_verified: fc.option(fc.boolean()),
  metadata: fc.option(fc.dictionary(text, fc.oneof(fc.integer(), text), { maxKeys: 2 })),
  identities: fc.option(
    fc.array(
      fc.record({
        auth_method: fc.constantFrom('email', 'google'),
        auth_value: text,
        email: fc.option(text),
        email_verified: fc.option(fc.boolean()),
        created_at: instant,
        last_login: fc.option(instant),
        primary: fc.boolean(),
      }),
      { minLength: 1, maxLength: 3 },
    ),
  ),
  accounts: fc.array(
    fc.constantFrom(
      { network: 'stellar' as const, public_key: stellarAddress(2), wallet_type: 'custodial' as const },
      { network: 'ethereum' as const, public_key: ethereumAddress(3), wallet_type: 'custodial' as const },
    ),
    { maxLength: 3 },
  ),
});

/** What a line of the format says, without the ID and what CSV lacks: it does not tell empty from absent, nor types of wallets. */
function asCsvHas(user: User) {
  const { id: _, ...line }: Record<string, unknown> = { ...JSON.parse(formatLine(user)), email: user.email };
  return Object.fromEntries(
    Object.entries(line).filter(
      ([, value]) => value !== null && value !== '' && !(Array.isArray(value) && !value.length),
    ),
  );
}

test('the CSV of any users becomes the lines that the export writes of them, each in its line of the file', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(users, { minLength: 1, maxLength: 20 }), fc.boolean(), async (all, hasMark) => {
      const expected = new Map<number, unknown>();
      let csv = CSV_HEAD;
      for (const user of all) {
        expected.set(csv.split('\n').length, asCsvHas(user));
        csv += formatCsvUser(user);
      }
      const { users: found, faults } = await convert(`${hasMark ? '\ufeff' : ''}${csv}`);
      expect(found).toEqual(expected);
      expect(faults).toEqual({});
    }),
    { numRuns: 200 },
  );
});

describe('a file', () => {
  test('of several pieces is read whole, wherever characters, cells and line ends are cut', async () => {
    const values = Array.from({ length: 15_000 }, (_, index) => `${'😀'.repeat(index % 17)}"${index}\n"`);
    const rows = values.map((value, index) => `"${value.replaceAll('"', '""')}",${index}\r\n`);
    const { users: found, faults } = await convert(`auth_value,login_count\r\n${rows.join('')}`);
    expect(faults).toEqual({});
    expect([...found]).toEqual(values.map((auth_value, index) => [2 + 2 * index, { auth_value, login_count: index }]));
  });

  test.each([
    [';', 'auth_method;auth_value\nemail;a,b\n'],
    ['\t', 'auth_method\tauth_value\r\nemail\ta,b\r\n'],
    ['|', 'auth_method|auth_value\remail|a,b'],
    [',', 'auth_method,auth_value\r\nemail,"a,b"'],
  ])('has its delimiter found: %j', async (delimiter, csv) => {
    const { sheet, users: found } = await convert(csv);
    expect(sheet.delimiter).toBe(delimiter);
    expect([...found]).toEqual([[2, { auth_method: 'email', auth_value: 'a,b' }]]);
  });

  test('may have one column, blank lines, both kinds of line ends, and a value for all lines', async () => {
    const { users: found, faults } = await convert('auth_value\r\na\n\nb\r\n   \n"c"\r\n"d"', { auth_method: 'email' });
    expect(faults).toEqual({});
    expect([...found].map(([line, { auth_value }]) => [line, auth_value])).toEqual([
      [2, 'a'],
      [4, 'b'],
      [6, 'c'],
      [7, 'd'],
    ]);
    expect(found.get(2)).toEqual({ auth_method: 'email', auth_value: 'a' });
  });

  test('has numbers where they are digits; anything else is left for the import to refuse', async () => {
    const others = ['1e3', '-1', ' 7', '7.0', '9'.repeat(400)];
    const cells = ['7', '007', ...others];
    const { users: found } = await convert(`login_count,wallet\n${cells.map((cell) => `${cell},x\n`).join('')}`);
    expect([...found.values()].map(({ login_count }) => login_count)).toEqual([7, 7, ...others]);
  });

  const utf16 = (mark: string) => new Uint8Array(Buffer.from(`${mark}auth_value\nada\n`, 'utf16le'));
  test.each<[string, string | Uint8Array<ArrayBuffer>, string]>([
    ['in Latin-1', new Uint8Array(Buffer.from('auth_value\nZoë\n', 'latin1')), 'UTF-8'],
    ['in UTF-16', utf16('\ufeff'), 'UTF-8'],
    ['in UTF-16 without a mark', utf16(''), 'UTF-8'],
    ['in Latin-1 far below', new Uint8Array([...Buffer.from('auth_value\n'.repeat(50_000)), 0xeb, 0x0a]), 'UTF-8'],
    ['of blank lines', '\n \n', 'no rows'],
    ['of too many columns', `x${','.repeat(100)}\n`, '101 columns'],
    ['whose header has a quote too few', '"auth_value\nada\n', 'Line 1: The quotes of this line are wrong'],
  ])('%s is refused', async (_, content, reason) => {
    await expect(convert(content)).rejects.toThrow(reason);
  });
});

/** What a spreadsheet takes for cells of a line that it splits at another delimiter than a comma, or within quotes that it does not see. */
const cellsOf = (line: string, delimiter: string) => line.split(delimiter).flatMap((cell) => cell.split(/[\r\n]/));
const lineOf = (auth_value: string) =>
  formatCsvUser({
    ...{ id: 1, auth_method: 'google', auth_value, email: null, wallet: null, external_id: null, accounts: [] },
    ...{ created_at: '2026-01-31T12:00:00.000Z', last_login: null, login_count: 0 },
    ...{ email_verified: null, metadata: null, identities: null },
  });

describe('what a spreadsheet would change', () => {
  test('begins no cell with a formula, at whatever delimiter it is split', () => {
    const starts = ['=cmd', '+1', '-1', '@SUM(A1)', '\t=1', '\r=1', '\n=1', '＝cmd', '＋1', '－1', '＠x', ' =1', "'=1"];
    for (const start of starts)
      for (const before of ['', 'x;', 'x|', 'x\t', 'x\r', 'x\n', 'x; '])
        for (const delimiter of [';', '|', '\t']) {
          const cells = cellsOf(lineOf(`${before}${start}`), delimiter);
          expect.soft(cells.filter((cell) => /^"? *[=+\-@＝＋－＠]/.test(cell))).toEqual([]);
        }
    // What a reader splits at is quoted, for those that do see quotes.
    for (const delimiter of [';', '|', '\t']) expect(lineOf(`x${delimiter}y`)).toContain(`,"x${delimiter}y",`);
  });

  test.each(`108204567890123456789 123456789012 007 1E5 2e10 3-4 2026-01-31 12:30 1.50 5% 1/2`.split(/\s+/))(
    '%s is text in an export, and the same again after an import',
    async (value) => {
      expect(lineOf(value)).toContain(`,'${value},`);
      const { users: found } = await convert(`${CSV_HEAD}${lineOf(value)}`);
      expect(found.get(2)).toMatchObject({ auth_value: value });
    },
  );

  test.each(['7', '0', '12345678901', 'abc-1', '2026-01-31T12:00:00.000Z', 'ada@example.com'])(
    '%s stays as it is',
    (value) => {
      expect(lineOf(value)).toContain(`,${value},`);
    },
  );

  test.each([
    ...['1.08204E+20', '1,08204E+20', '1.08204567890123E+020', '1E+15', '108204567890123000000'],
    ...['#N/A', '#NAME?', '#VALUE!', '#####'],
  ])('%s is no ID: its line says why', async (cell) => {
    const { users: found, faults } = await convert(
      `auth_method;auth_value;notes\ngoogle;${cell};${cell}\ngoogle;x;${cell}\n`,
    );
    expect(faults).toEqual({
      2: `auth_value: got "${cell}", of which a spreadsheet has lost the value. Make the column text there, and enter its values anew.`,
    });
    expect([...found.values()]).toEqual([0, { auth_method: 'google', auth_value: 'x' }]);
  });
});

describe('a file without titles', () => {
  test.each([
    ['email,ada@example.com'],
    ['google;108204567890123456789'],
    [`wallet,${stellarAddress(1)}`],
    [`wallet\t${ethereumAddress(1)}`],
    ['google,x,2026-01-31T12:00:00Z'],
  ])('is recognised by a value: %s', async (row) => {
    expect((await openSheet(new Blob([row]), null)).firstIsUser).toBe(true);
  });

  test.each(['auth_method,auth_value', 'E-Mail', 'Address;Login Count; notes', '"",x', 'id,2026'])(
    'is not this: %s',
    async (row) => {
      expect((await openSheet(new Blob([row]), null)).firstIsUser).toBe(false);
    },
  );

  test('keeps its first row', async () => {
    const { users: found } = await convert('email,ada@example.com\nemail,bob@example.com\n', {}, null, [
      'auth_method',
      'auth_value',
    ]);
    expect([...found]).toEqual([
      [1, { auth_method: 'email', auth_value: 'ada@example.com' }],
      [2, { auth_method: 'email', auth_value: 'bob@example.com' }],
    ]);
  });
});

test('rows of nothing but delimiters and blanks are no rows, however many they have', async () => {
  const { users: found, faults } = await convert(',,\nauth_method,auth_value\n,\nx,1\n,,,,\n , \n"",""\nx,2\n,,\n');
  expect(faults).toEqual({});
  expect([...found].map(([line, { auth_value }]) => [line, auth_value])).toEqual([
    [4, '1'],
    [8, '2'],
  ]);
});

const QUOTES =
  'The quotes of this line are wrong: a cell that begins with a quote has to end with one, within 128 KiB.';

describe('a row that is wrong', () => {
  test.each([
    ['a,b,c', 'The row has a wrong number of cells: got 3, expected 2.'],
    ['a', 'The row has a wrong number of cells: got 1, expected 2.'],
    ['"a"b,c', QUOTES],
    ['"a,c', QUOTES],
  ])('is reported with its line, and the next ones are read: %j', async (row, fault) => {
    const { users: found, faults } = await convert(`auth_method,auth_value\nx,"\n"\n${row}\nx,2\nx,"3"\n`, {}, ',');
    expect(faults).toEqual({ 4: fault });
    expect([...found]).toEqual([
      [2, { auth_method: 'x', auth_value: '\n' }],
      [4, 0],
      [5, { auth_method: 'x', auth_value: '2' }],
      [6, { auth_method: 'x', auth_value: '3' }],
    ]);
  });

  test('is the one whose quote is not closed, also pieces before the end of the file', async () => {
    const rows = 'x,y\n'.repeat(200_000);
    const { users: found, faults } = await convert(`auth_method,auth_value\nx,"y\n${rows}`, {}, ',');
    expect(faults).toEqual({ 2: QUOTES });
    expect(found.size).toBe(200_001);
    expect(found.get(200_002)).toEqual({ auth_method: 'x', auth_value: 'y' });
  });

  test('is a line that is too long, and the next is read', async () => {
    const { users: found, faults } = await convert(`auth_method,auth_value\nx,${'y'.repeat(600_000)}\nx,y\n`, {}, ',');
    expect(faults).toEqual({ 2: 'The line has more than 128 KiB.' });
    expect([...found]).toEqual([
      [2, 0],
      [3, { auth_method: 'x', auth_value: 'y' }],
    ]);
  });

  test('ends the reading after many of its kind, and says so', async () => {
    const { users: found, faults } = await convert(`auth_method,auth_value\n${'x,"y\n'.repeat(200_000)}`, {}, ',');
    expect(Object.entries(faults).at(-1)).toEqual(['22', expect.stringContaining('Nothing from here on was read.')]);
    expect([...found.keys()].at(-1)).toBe(22);
  });
});

test('a conversion that is stopped ends at the next piece', async () => {
  const file = new Blob(['auth_value\n', 'x\n'.repeat(500_000)]);
  const stop = new AbortController();
  const seen: number[] = [];
  const converted = toNdjson(file, await openSheet(file, null), {
    hasTitles: true,
    columns: fieldsOf(['auth_value']),
    always: {},
    signal: stop.signal,
    onProgress: (fraction) => {
      seen.push(fraction);
      stop.abort();
    },
  });
  await expect(converted).rejects.toThrow('You stopped the import.');
  expect(seen).toHaveLength(1);
});
