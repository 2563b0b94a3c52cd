import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DateTime } from 'luxon';
import { analyse } from 'scslre';
import { parseSync, Visitor } from 'vite';
import { expect, test } from 'vitest';
import { methodMeant, methodNamed } from '#dist/domain/auth-methods.js';
import { isLost, isOfUser, protect, unprotect } from '#dist/domain/csv-cells.js';
import { PAST } from '#dist/domain/import-format.js';
import { requireDateFormat } from '#dist/users/moving/date-format.js';
import { createMove } from '#dist/users/moving/move.js';
import { parseExactly } from '#dist/users/moving/read-json.js';
import { systemNamed } from '#dist/users/moving/systems.js';
import { createDateReader } from '#dist/users/moving/values.js';
import { ROOT } from '../support/checkout.js';

/*
 * The time of a regular expression grows with its text, and not faster: a text from outside may be a megabyte. scslre tells it from the
 * expression alone, so that no clock is needed.
 */

/** An expression, as it stands in the source. */
interface Expression {
  readonly path: string;
  readonly source: string;
  readonly flags: string;
}

/** Expressions that are made at run time, of what stands in the source or in a migration: none is made of a text from outside. */
const MADE_OF_OUR_OWN = ['db/migration-files.ts', 'guides/browser.js', 'guides/samples.js', 'http/failures.ts'];

const literals: Expression[] = [];
const made = new Set<string>();
for (const path of readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })) {
  if (!/\.(tsx?|js)$/.test(path) || path.includes('generated')) continue;
  const { program } = parseSync(path, readFileSync(join(ROOT, 'src', path), 'utf8'));
  const isMade = (callee: object) => 'name' in callee && callee.name === 'RegExp' && made.add(path);
  new Visitor({
    Literal(node) {
      if ('regex' in node) literals.push({ path, source: node.regex.pattern, flags: node.regex.flags });
    },
    NewExpression: ({ callee }) => void isMade(callee),
    CallExpression: ({ callee }) => void isMade(callee),
  }).visit(program);
}

/** The parts of an expression that take more than linear time. */
const slowParts = ({ source, flags }: Pick<Expression, 'source' | 'flags'>) =>
  analyse({ source, flags }, { reportTypes: { Move: true, Self: true, Trade: true } }).reports.map(({ type }) => type);

test('each expression of the source takes linear time', () => {
  expect(literals.length).toBeGreaterThan(200);
  expect(literals.filter((one) => slowParts(one).length > 0).map(({ path, source }) => `${path} ${source}`)).toEqual(
    [],
  );
});

test('an expression is made at run time only in files whose parts are our own', () => {
  expect([...made].sort()).toEqual(MADE_OF_OUR_OWN);
});

test.each([
  ['quadratic by its end', /-+$/],
  ['quadratic within', /-?\d{16,}(?![\d.eE])/],
  ['quadratic by two parts that share a text', /^[^\s@]+@[^\s@]+\.[^\s@]+$/],
  ['exponential', /^(\d+)+$/],
])('a slow expression is found: %s', (_, { source, flags }) => {
  expect(slowParts({ source, flags })).not.toEqual([]);
});

/* What scslre cannot tell: at this length, quadratic time is a minute, and linear time is milliseconds. */

const LENGTH = 2 ** 18;
const PIECES = [
  '-',
  '=',
  '1',
  '"',
  '\\"',
  '\\',
  "'",
  ' ',
  '\n',
  '@',
  'a@a',
  '.',
  '1 ',
  'oauth',
  '[',
  '+1 ',
  '(0)',
  '0x',
  ';\t',
];
const TEXTS = PIECES.map((piece) => piece.repeat(LENGTH / piece.length));

function ignoreSyntax(work: () => unknown): void {
  try {
    work();
  } catch (error) {
    expect(error).toBeInstanceOf(SyntaxError);
  }
}

test.each([
  ['a JSON record with long numbers', (text: string) => ignoreSyntax(() => parseExactly(`[1234567890123456, ${text}`))],
  ['a JSON record with a long text', (text: string) => ignoreSyntax(() => parseExactly(`[1234567890123456, "${text}`))],
  ['the name of a method', (text: string) => methodNamed(`a${text}a`)],
  ['the name of a provider by its address', (text: string) => methodNamed(`https://${text}\n`)],
  ['the spelling of a method', (text: string) => methodMeant(`a${text}a`)],
  ['a cell that may be of a user', (text: string) => isOfUser([`a@${text}@`, text])],
  ['a cell that a spreadsheet may change', (text: string) => unprotect(protect(`1${text}x`))],
  ['a cell that a spreadsheet has changed', (text: string) => isLost(`1${text}x`)],
])('%s takes a time that grows with its length', (_, read) => {
  for (const text of TEXTS) read(text);
});

test.each(['passkey', 'phone', 'wallet', 'google'])(
  'a login by %s takes a time that grows with its length',
  async (provider) => {
    const { read } = createMove({ system: systemNamed('auth0') });
    for (const text of TEXTS.map((text) => text.slice(0, LENGTH / 8))) {
      const record = { user_id: 'a', identities: [{ provider, user_id: `+1${text}a` }], phone_number: `+1${text}a` };
      for await (const lines of read(one(Buffer.from(JSON.stringify(record))))) expect(lines.length).toBeLessThan(3);
    }
  },
);

async function* one(chunk: Buffer) {
  yield chunk;
}

test.each(['dd.MM.yyyy HH:mm', "yyyy-MM-dd'T'HH:mm:ss.SSSZZ", 'D t', 'EEEE, d MMMM yyyy'])(
  'a format of dates that has each part once is read: %s',
  (format) => {
    requireDateFormat(format);
    const instant = DateTime.utc(2026, 5, 17, 14, 5);
    const read = createDateReader({ format, zone: 'UTC', note: () => undefined })(
      'created_at',
      PAST,
      instant.toFormat(format),
    );
    expect(read?.slice(0, 10)).toBe('2026-05-17');
  },
);

test.each([
  ['SuSuSuSuSuSuSu', 'dates: got "u", expected each part of a date and its time once.'],
  ['yyyy kk', 'dates: got "kk", expected each part of a date and its time once.'],
  ['d M y h H', 'dates: got "H", expected each part of a date and its time once.'],
  ['YYYY-MM-DD', 'dates: got "YYYY", expected tokens of Luxon'],
  ['d'.repeat(65), 'expected a format of at most 64 characters'],
])('a format of dates that could take for ever, or reads nothing, is refused: %s', (format, message) => {
  expect(() => requireDateFormat(format)).toThrow(message);
});
