import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readPrivateFile, writePrivateFile } from '#dist/config/private-files.js';
import { parseLine } from '#dist/domain/import-format.js';
import { parseMetadata } from '#dist/domain/metadata.js';
import { parsedBatches, WHOLE } from '#dist/users/import-input.js';
import { newReport } from '#dist/users/import-report.js';
import { createRowSplitter, guessDialect } from '#dist/users/moving/read-csv.js';

/* An import of any bytes has bounds of memory and of time without a turn for others; a file with a secret is nobody else's. */

const FORMS: [what: string, line: string, count: number][] = [
  ['that fail', '{}', 20_000],
  ['that are no JSON', '{"a"}', 20_000],
  ['that are blank', ' ', 200_000],
];

test.each(FORMS)('lines %s are told in parts, and others have turns meanwhile', async (_, line, count) => {
  const report = newReport(true);
  const options = { progress: () => undefined, signal: new AbortController().signal };
  let turns = 0;
  let isDone = false;
  const turn = () => {
    turns += 1;
    if (!isDone) setImmediate(turn);
  };
  setImmediate(turn);
  let most = 0;
  async function* input() {
    yield Buffer.from(`${line}\n`.repeat(count));
  }
  for await (const batch of parsedBatches(input(), report, options, WHOLE)) {
    expect(batch).toEqual([]);
    most = Math.max(most, report.failures?.splice(0).length ?? 0);
  }
  isDone = true;
  expect(report.failed).toBe(line === ' ' ? 0 : count);
  expect(most).toBeLessThanOrEqual(1_000);
  expect(report.errors.length).toBeLessThan(2_000);
  // One turn in all would be a tick as long as the input.
  expect(turns).toBeGreaterThan(5);
});

test.each(['[', '{"a":', '[{"a":'])('a line of 150,000 levels is a fault of that line: %s', (level) => {
  const line = Buffer.from(`{"auth_method":"email","metadata":${level.repeat(150_000)}`);
  expect(() => parseLine(line)).toThrow('The line nests deeper than 100 levels.');
});

test('brackets within texts are no levels', () => {
  const line = JSON.stringify({ auth_method: 'google', auth_value: '1', metadata: { text: `\\"${'['.repeat(500)}` } });
  expect(parseLine(Buffer.from(line))).toMatchObject({ user: { authValue: '1' } });
});

test('metadata has no key __proto__, at any level', () => {
  for (const json of ['{"__proto__":{}}', '{"a":[{"__proto__":1}]}'])
    expect(() => parseMetadata('metadata', JSON.parse(json))).toThrow('"__proto__" cannot be kept');
});

const WRONG_QUOTES = ['"a', 'a,"b"c', '"",', '"a"b\n'];

test.each(WRONG_QUOTES)(
  'CSV of megabytes of wrong quotes is read in a time that grows with its length: %j',
  (piece) => {
    const text = piece.repeat(4_000_000 / piece.length);
    const splitter = createRowSplitter(guessDialect(text));
    let rows = 0;
    for (let at = 0; at < text.length; at += 65_536) rows += splitter.split(text.slice(at, at + 65_536), false).length;
    expect(rows + splitter.split('', true).length).toBeLessThan(30);
  },
);

test('a private file is not written through what another user has made, and not read from it', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'userdir-private-'));
  try {
    const path = join(directory, 'command.json');
    const bait = join(directory, 'bait');
    writeFileSync(bait, '', { mode: 0o666 });
    for (const name of ['command.json.new', 'command.json']) symlinkSync(bait, join(directory, name));
    await expect(readPrivateFile(path)).rejects.toThrow('another system user may have written it');
    await writePrivateFile(path, 'secret');
    expect(readFileSync(bait, 'utf8')).toBe('');
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(await readPrivateFile(path)).toBe('secret');
    expect(readdirSync(directory).sort()).toEqual(['bait', 'command.json', 'command.json.new']);
    chmodSync(path, 0o666);
    await expect(readPrivateFile(path)).rejects.toThrow('another system user may have written it');
  } finally {
    rmSync(directory, { recursive: true });
  }
});
