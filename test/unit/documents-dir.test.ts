import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readDocumentsDir } from '#dist/graphql/request.js';

/** The documents that an operator puts into a directory: docs/graphql.md. All of them are read, or none, and each fault is named. */

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'userdir-documents-'));
});
afterEach(() => rmSync(dir, { recursive: true }));

const put = (name: string, text: string) => writeFileSync(join(dir, name), text);
const GOOD = 'query Count { userCount }';

test.each([0, 1, 2, 5])('of %i that are right, each has its ID', async (count) => {
  const texts = Array.from({ length: count }, (_, n) => `query Q${n} { userCount }`);
  for (const [n, text] of texts.entries()) put(`${n}.graphql`, text);
  put('notes.txt', 'nothing');
  const documents = await readDocumentsDir(dir);
  expect([...documents]).toEqual(texts.map((text) => [createHash('sha256').update(text).digest('hex'), text]));
});

test.each([1, 2, 3])('%i that are wrong are named, and none is taken', async (count) => {
  put('good.graphql', GOOD);
  for (let n = 0; n < count; n += 1) put(`wrong-${n}.graphql`, 'query {');
  const error = await readDocumentsDir(dir).catch(({ message }: Error) => message);
  expect(error).toMatch(new RegExp(`^DOCUMENTS_DIR ${dir} cannot be used\\.\\n`));
  expect(`${error}`.match(/^wrong-\d\.graphql: /gm)).toHaveLength(count);
});

test.each([
  [1_000, true],
  [1_001, false],
])('there may be 1,000: %i', async (count, isTaken) => {
  for (let n = 0; n < count; n += 1) put(`${n}.graphql`, `query Q${n} { userCount }`);
  const size = await readDocumentsDir(dir).then(
    (documents) => documents.size,
    ({ message }) => message,
  );
  if (isTaken) expect(size).toBe(count);
  else expect(size).toContain(`got ${count} files of`);
});

test.each([
  [2 ** 20, true],
  [2 ** 20 + 1, false],
])('they may have 2 to the 20 bytes: %i', async (bytes, isTaken) => {
  for (let left = bytes, n = 0; left > 0; n += 1) {
    const own = Math.min(left, 8 * 1_024);
    // The last one may be too short for a query.
    put(`${n}.graphql`, `query Q${String(n).padStart(3, '0')} { userCount }`.padEnd(own, '#'));
    left -= own;
  }
  const outcome = await readDocumentsDir(dir).then(
    () => 'taken',
    ({ message }) => message,
  );
  if (isTaken) expect(outcome).toBe('taken');
  else expect(outcome).toMatch(/expected at most 1000 files of 1048576 bytes/);
});

test('one that cannot be read says so', async () => {
  await expect(readDocumentsDir(join(dir, 'none'))).rejects.toThrow('none cannot be read.');
});
