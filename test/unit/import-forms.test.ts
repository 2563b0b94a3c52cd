import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { parsedBatches, WHOLE } from '#dist/users/import-input.js';
import { newReport } from '#dist/users/import-report.js';

/** The forms in which the users of an import may come: docs/importing.md. Each has the same users, wherever pieces of it are cut. */

const USERS = [
  { auth_method: 'email', auth_value: 'ada@example.com', external_id: 'a-1', login_count: 3 },
  { auth_method: 'google', auth_value: 'grüße; und, mehr', external_id: 'b|2', login_count: 0 },
  { auth_method: 'username', auth_value: 'emoji 😀', external_id: 'c-3', login_count: 12 },
  // Texts that look like numbers.
  { auth_method: 'github', auth_value: '117', external_id: '42', login_count: 7 },
];

const lines = (end = '\n') => USERS.map((user) => `${JSON.stringify(user)}${end}`).join('');
const csv = (delimiter: string, end = '\n') =>
  [Object.keys(USERS[0] as object), ...USERS.map((user) => Object.values(user).map((cell) => `"${cell}"`))]
    .map((cells) => `${cells.join(delimiter)}${end}`)
    .join('');

const TEXTS: Record<string, string> = {
  'a line each': lines(),
  'a line each, as Windows ends them': lines('\r\n'),
  'a line each, the last without an end': lines().trimEnd(),
  'a list': JSON.stringify(USERS),
  'a list over several lines': JSON.stringify(USERS, null, 2),
  'a list after blank lines': `\n \n${JSON.stringify(USERS)}`,
  'a list within an object': JSON.stringify({ users: USERS }),
  'a list within an object over several lines': JSON.stringify({ users: USERS }, null, 2),
  'CSV with commas': csv(','),
  'CSV with semicolons, as Windows ends lines': csv(';', '\r\n'),
  'CSV with tabs': csv('\t'),
  'CSV with bars': csv('|'),
};

const ENCODINGS: Record<string, (text: string) => Buffer> = {
  'UTF-8': (text) => Buffer.from(text),
  'UTF-8 with a mark': (text) => Buffer.from(`\uFEFF${text}`),
  'UTF-16, little end first': (text) => Buffer.from(`\uFEFF${text}`, 'utf16le'),
  'UTF-16, big end first': (text) => Buffer.from(`\uFEFF${text}`, 'utf16le').swap16(),
  gzip: (text) => gzipSync(text),
};

async function read(bytes: Buffer, size: number) {
  async function* pieces() {
    for (let start = 0; start < bytes.length; start += size) yield bytes.subarray(start, start + size);
  }
  const report = newReport(false);
  const options = { progress: () => undefined, signal: new AbortController().signal };
  const users = [];
  for await (const batch of parsedBatches(pieces(), report, options, WHOLE))
    for (const { record } of batch) if ('user' in record) users.push(record.user);
  return { users, errors: report.errors };
}

const FORMS = Object.entries(ENCODINGS).flatMap(([encoding, encode]) =>
  Object.entries(TEXTS).map(([form, text]) => ({ encoding, form, bytes: encode(text) })),
);

test.each(FORMS)('$form, in $encoding', async ({ bytes }) => {
  for (const size of [1, 7, 100, bytes.length]) {
    const { users, errors } = await read(bytes, size);
    expect(errors).toEqual([]);
    expect(
      users.map(({ authMethod, authValue, externalId, loginCount }) => [authMethod, authValue, externalId, loginCount]),
    ).toEqual(USERS.map((user) => Object.values(user)));
  }
});
