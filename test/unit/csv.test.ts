import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isOfUser } from '#dist/domain/csv-cells.js';
import { CSV_HEAD, formatCsvUser } from '#dist/domain/export-format.js';
import { ofKeptLines } from '#dist/domain/kept-texts.js';
import { createRowSplitter, guessDialect, type Row, recordOf } from '#dist/users/moving/read-csv.js';
import { walletBatches } from '#dist/users/wallet-input.js';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';

type User = Parameters<typeof formatCsvUser>[0];

/** The rows of a text that comes in pieces, by the numbers of their lines. */
function rowsOf(text: string, { delimiter = guessDialect(text).delimiter, length = 2 ** 16 } = {}): Row[] {
  const splitter = createRowSplitter({ ...guessDialect(text), delimiter });
  const rows: Row[] = [];
  for (let start = 0; start < text.length; start += length)
    rows.push(...splitter.split(text.slice(start, start + length), false));
  return [...rows, ...splitter.split('', true)];
}

const cellsIn = (text: string, options = {}) => rowsOf(text, options).map(({ line, cells }) => [line, ...cells]);
const faultsIn = (text: string, options = {}) =>
  rowsOf(text, options).flatMap(({ line, fault }) => (fault ? [[line, fault]] : []));

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
const PRIMARY = {
  auth_method: 'email',
  auth_value: '',
  email: null,
  email_verified: null,
  created_at: '2026-01-01T00:00:00.000Z',
  last_login: null,
  primary: true,
};
const users: fc.Arbitrary<User> = fc.record({
  login_email: fc.option(text),
  primary: fc.constant(PRIMARY),
  id: fc.nat(),
  auth_method: fc.constantFrom('email', 'passkey', 'google'),
  auth_value: text,
  email: fc.option(text),
  wallet: fc.option(fc.constantFrom(stellarAddress(1), ethereumAddress(1))),
  created_at: instant,
  last_login: fc.option(instant),
  login_count: fc.nat(2 ** 31 - 1),
  ...ofKeptLines(() => fc.option(text)),
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

/** As a record has them: an empty cell is none. */
function cellsOfUser(user: User) {
  const { login_email, primary: _primary, ...fields } = user;
  const cells: Record<string, unknown> = {
    ...fields,
    // The email that is shown, or that there is none.
    email: user.email === '' ? 'none' : login_email,
    accounts: user.accounts.map(({ public_key }) => public_key).join(' '),
  };
  const {
    id: _,
    identities,
    ...texts
  } = Object.fromEntries(Object.entries(cells).filter(([, cell]) => cell !== null && cell !== ''));
  return Object.fromEntries(
    Object.entries(texts).map(([name, cell]) => [name, typeof cell === 'object' ? JSON.stringify(cell) : String(cell)]),
  );
}

test('the CSV of any users has their values, each in its line of the file, wherever pieces of it are cut', async () => {
  const titles = CSV_HEAD.trim().split(',');
  fc.assert(
    fc.property(fc.array(users, { minLength: 1, maxLength: 20 }), fc.integer({ min: 1, max: 400 }), (all, length) => {
      const expected = new Map<number, unknown>();
      let csv = CSV_HEAD;
      for (const user of all) {
        expected.set(csv.split('\n').length, cellsOfUser(user));
        csv += formatCsvUser(user);
      }
      const records = rowsOf(csv, { delimiter: ',', length })
        .slice(1)
        .map((row) => {
          const { id: _, identities, ...record } = recordOf(titles, row, () => false);
          return [row.line, record] as const;
        });
      expect(new Map(records)).toEqual(expected);
    }),
    { numRuns: 200 },
  );
});

describe('a file', () => {
  test.each([
    [';', 'auth_method;auth_value\nemail;a,b\n'],
    ['\t', 'auth_method\tauth_value\r\nemail\ta,b\r\n'],
    ['|', 'auth_method|auth_value\remail|a,b'],
    [',', 'auth_method,auth_value\r\nemail,"a,b"'],
  ])('has its delimiter found: %j', (delimiter, csv) => {
    expect(guessDialect(csv).delimiter).toBe(delimiter);
    expect(cellsIn(csv)[1]).toEqual([2, 'email', 'a,b']);
  });

  test('may have one column, blank lines, and both kinds of line ends', () => {
    expect(cellsIn('auth_value\r\na\n\nb\r\n   \n"c"\r\n"d"')).toEqual([
      [1, 'auth_value'],
      [2, 'a'],
      [4, 'b'],
      [6, 'c'],
      [7, 'd'],
    ]);
  });
});

/** What a spreadsheet takes for cells of a line that it splits at another delimiter than a comma, or within quotes that it does not see. */
const cellsOf = (line: string, delimiter: string) => line.split(delimiter).flatMap((cell) => cell.split(/[\r\n]/));
const lineOf = (auth_value: string) =>
  formatCsvUser({
    id: 1,
    auth_method: 'google',
    auth_value,
    email: null,
    wallet: null,
    ...ofKeptLines(() => null),
    accounts: [],
    created_at: '2026-01-31T12:00:00.000Z',
    last_login: null,
    login_count: 0,
    email_verified: null,
    metadata: null,
    identities: null,
    login_email: null,
    primary: PRIMARY,
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
    (value) => {
      expect(lineOf(value)).toContain(`,'${value},`);
      expect(cellsIn(`${CSV_HEAD}${lineOf(value)}`)[1]).toContain(value);
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
  ])('%s is no ID: its line says why', (cell) => {
    const [, ...rows] = rowsOf(`auth_value;notes\n${cell};${cell}\nx;${cell}\n`);
    const read = (row: Row) => recordOf(['auth_value', 'notes'], row, (title) => title === 'auth_value');
    expect(() => read(rows[0] as Row)).toThrow(
      `auth_value: got "${cell}", of which a spreadsheet has lost the value. Make the column text there, and enter its values anew.`,
    );
    expect(read(rows[1] as Row)).toEqual({ auth_value: 'x', notes: cell });
  });
});

describe('the first line', () => {
  test.each([
    ['email,ada@example.com'],
    ['google;108204567890123456789'],
    [`wallet,${stellarAddress(1)}`],
    [`wallet\t${ethereumAddress(1)}`],
    ['google,x,2026-01-31T12:00:00Z'],
  ])('is of a person, by a value: %s', (row) => {
    expect(isOfUser(rowsOf(row)[0]?.cells ?? [])).toBe(true);
  });

  test.each(['auth_method,auth_value', 'E-Mail', 'Address;Login Count; notes', '"",x', 'id,2026'])(
    'has titles: %s',
    (row) => {
      expect(isOfUser(rowsOf(row)[0]?.cells ?? [])).toBe(false);
    },
  );
});

test('rows of nothing but delimiters and blanks are no rows, however many they have', () => {
  expect(cellsIn(',,\nauth_method,auth_value\n,\nx,1\n,,,,\n , \n"",""\nx,2\n,,\n')).toEqual([
    [2, 'auth_method', 'auth_value'],
    [4, 'x', '1'],
    [8, 'x', '2'],
  ]);
});

const QUOTES =
  'The quotes of this line are wrong: a cell that begins with a quote has to end with one, within 128 KiB.';

describe('a row that is wrong', () => {
  test.each(['"a"b,c', '"a,c'])('is reported with its line, and the next ones are read: %j', (row) => {
    const csv = `auth_method,auth_value\nx,"\n"\n${row}\nx,2\nx,"3"\n`;
    expect(faultsIn(csv, { delimiter: ',' })).toEqual([[4, QUOTES]]);
    expect(cellsIn(csv, { delimiter: ',' }).slice(1)).toEqual([[2, 'x', '\n'], [4], [5, 'x', '2'], [6, 'x', '3']]);
  });

  test('has another number of cells than there are titles', () => {
    const read = () => recordOf(['auth_method', 'auth_value'], { line: 2, cells: ['a'] }, () => true);
    expect(read).toThrow('The row has 1 cells, expected 2.');
  });

  test('is the one whose quote is not closed, also pieces before the end of the file', () => {
    const csv = `auth_method,auth_value\nx,"y\n${'x,y\n'.repeat(200_000)}`;
    expect(faultsIn(csv)).toEqual([[2, QUOTES]]);
    expect(rowsOf(csv)).toHaveLength(200_002);
    expect(rowsOf(csv).at(-1)).toEqual({ line: 200_002, cells: ['x', 'y'] });
  });

  test('is a line that is too long, and the next is read', () => {
    const csv = `auth_method,auth_value\nx,${'y'.repeat(600_000)}\nx,y\n`;
    expect(faultsIn(csv)).toEqual([[2, 'The line has more than 128 KiB.']]);
    expect(cellsIn(csv).slice(1)).toEqual([[2], [3, 'x', 'y']]);
  });

  test('ends the reading after many of its kind, and says so', () => {
    const faults = faultsIn(`auth_method,auth_value\n${'x,"y\n'.repeat(200_000)}`);
    expect(faults.at(-1)).toEqual([22, expect.stringContaining('Nothing from here on was read.')]);
  });
});

test('a line of wallets with a wrong address and a wrong user ID names both', async () => {
  async function* input() {
    yield Buffer.from('address,user_id\nhello,x\n');
  }
  const { value: lines } = await walletBatches(input()).next();
  expect(lines?.[0]?.wallet).toEqual({
    reason: expect.stringMatching(
      /user_id: got "x", expected a whole number, 1 and up\. address: got "hello", expected /,
    ),
  });
});
