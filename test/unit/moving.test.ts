import { createReadStream, existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parseLine } from '#dist/domain/import-format.js';
import { createCsvSystem, joinRows } from '#dist/users/moving/csv.js';
import { createMove } from '#dist/users/moving/move.js';
import { createFieldTest, linesOf, type SourceRecord, type System } from '#dist/users/moving/person.js';
import { readFile } from '#dist/users/moving/read.js';
import { SYSTEMS, systemNamed } from '#dist/users/moving/systems.js';
import { createDateReader, isEmpty, textOf } from '#dist/users/moving/values.js';

/* Samples of exports beside the import lines and the counts that they give, which were checked by hand against the meaning of the sample. */

const SAMPLES = join(import.meta.dirname, '../moving/samples');
const CASES: readonly (readonly [system: string, ...files: string[]])[] = [
  ['auth0', 'export.ndjson'],
  ['auth0', 'export.csv'],
  ['auth0', 'import-schema.json'],
  ['auth0', 'odd.json'],
  ['clerk', 'api.json'],
  ['clerk', 'export.csv'],
  ['clerk', 'odd.json'],
  ['cognito', 'import.csv'],
  ['cognito', 'list-users.json'],
  ['cognito', 'odd.json'],
  ['csv', 'users.csv'],
  ['csv', 'joined.csv'],
  ['csv', 'own-export.csv'],
  ['csv', 'users-cp1252.csv'],
  ['csv', 'users-utf16.csv'],
  ['dynamic', 'users.json'],
  ['dynamic', 'odd.json'],
  ['entra', 'portal.csv'],
  ['entra', 'users.json'],
  ['firebase', 'users.csv'],
  ['firebase', 'admin.json'],
  ['firebase', 'users.json'],
  ['fusionauth', 'users.json', 'links.json'],
  ['keycloak', 'realm-export.json'],
  ['keycloak', 'odd.json'],
  ['kratos', 'identities.json'],
  ['okta', 'users.json'],
  ['privy', 'users.json'],
  ['privy', 'odd.json'],
  ['scim', 'users.json'],
  ['stytch', 'members.json'],
  ['stytch', 'users.json'],
  ['supabase', 'auth_users.csv'],
  ['supabase', 'admin-api.json'],
  ['supabase', 'auth_users.csv', 'auth_identities.csv'],
  ['thirdweb', 'user-details.json'],
  ['thirdweb', 'wallets.json'],
  ['workos', 'users.json'],
];

test.for(CASES)('%s: %s %s', async ([name = '', ...files]) => {
  const expected = join(SAMPLES, name, `${files.join('+')}.expected.json`);
  await expect(await report(systemOf(name, files), name, files)).toMatchFileSnapshot(expected);
});

test.for([
  ['auth_users.csv', 'auth_identities.csv'],
  ['auth_identities.csv', 'auth_users.csv'],
])('files of one system may come in any order: %s, %s', async (files) => {
  const paths = files.map((file) => join(SAMPLES, 'supabase', file));
  const input = {
    async *[Symbol.asyncIterator]() {
      for (const path of paths) yield* createReadStream(path) as AsyncIterable<Buffer>;
    },
  };
  const move = createMove({ system: systemNamed('supabase'), sizes: paths.map((path) => statSync(path).size) });
  for await (const lines of move.read(input)) for (const { read } of lines) read();
  expect(move.summary()).toMatchObject({ people: 17, identities: { email: 8, google: 3, wallet: 2, supabase: 3 } });
  expect(move.summary().not_kept).not.toHaveProperty('identities without an ID');
});

test('each system has a sample', () => {
  expect(SYSTEMS.map(({ name }) => name)).toEqual(
    [...new Set(CASES.map(([name]) => name))].filter((name) => name !== 'csv'),
  );
});

function systemOf(name: string, files: readonly string[]): System {
  if (name !== 'csv') return systemNamed(name);
  const map = join(SAMPLES, name, (files[0] as string).replace(/(-cp1252|-utf16)?\.\w+$/, '.map.json'));
  return createCsvSystem(existsSync(map) ? readFileSync(map, 'utf8') : null);
}

/** The lines of files, each on its own line, and what was counted. */
async function report(system: System, folder: string, files: readonly string[]): Promise<string> {
  const [kept, notKept] = [new Map<string, number>(), new Map<string, number>()];
  const countIn = (counts: Map<string, number>) => (what: string) => counts.set(what, (counts.get(what) ?? 0) + 1);
  const [note, drop] = [countIn(kept), countIn(notKept)];
  const readDate = createDateReader({ format: folder === 'csv' ? 'dd.MM.yyyy HH:mm:ss' : null, zone: 'UTC', note });
  const isField = createFieldTest(system);
  const lines: string[] = [];
  const [records = [], others = []] = await Promise.all(
    files.map((file) => recordsOf(system, join(SAMPLES, folder, file))),
  );
  for (const record of records) {
    for (const [field, value] of Object.entries(record)) if (!isField(field) && !isEmpty(value)) drop(field);
    const person = system.toPerson(withJoined(record, others, system));
    if (typeof person === 'string') {
      drop(person);
      continue;
    }
    if ('line' in person) throw new TypeError('A system gives people.');
    const { user, bans } = linesOf(person, {
      system: system.name,
      title: system.title,
      trustUnverified: false,
      readDate,
      note,
      drop,
    });
    lines.push(...[user, ...bans].map((line) => JSON.stringify(line)));
  }
  for (const line of lines) expect(parseLine(Buffer.from(line))).not.toBeNull();
  const counts = JSON.stringify(
    { kept_otherwise: Object.fromEntries(kept), not_kept: Object.fromEntries(notKept) },
    null,
    2,
  );
  return `{"lines":[\n${lines.join(',\n')}\n],"counts":${counts}}\n`;
}

async function recordsOf(system: System, path: string): Promise<SourceRecord[]> {
  const { records } = await readFile(createReadStream(path), system);
  const all = [];
  for await (const some of system.joinBy === undefined ? records : joinRows(records, system.joinBy)) all.push(...some);
  return all.map(({ read }) => read());
}

function withJoined(record: SourceRecord, others: readonly SourceRecord[], { joined, idFields }: System): SourceRecord {
  if (joined === undefined || others.length === 0) return record;
  const id = textOf(record[idFields[0] as string]);
  return { ...record, [joined.as]: others.filter((other) => other[joined.key] === id) };
}

describe('a mapping', () => {
  const refused = (map: unknown) => () => createCsvSystem(typeof map === 'string' ? map : JSON.stringify(map));

  test('names the field that is wrong', () => {
    expect(refused('{"email": }')).toThrow(/^map: not valid JSON: /);
    expect(refused({ mail: 'Email' })).toThrow(/^map: got "mail", expected one of external_id, auth_method,/);
    expect(refused({ email: 5 })).toThrow('map.email: expected a column, or {"column", "value", "values", "split"}.');
    expect(refused({ email: { colum: 'x' } })).toThrow(/^map\.email: expected /);
    expect(refused([])).toThrow('map: expected a JSON object of fields.');
  });

  test('names a column that the file does not have, and those that it has', () => {
    const { checkTitles } = createCsvSystem(
      '{"external_id": "User ID", "email": ["mail"]}'.replace('["mail"]', '"mail"'),
    );
    expect(() => checkTitles?.(['user_id', 'mail', 'name'])).not.toThrow();
    expect(() => checkTitles?.(['user_id', 'name'])).toThrow('The file has no column "mail"; it has: user_id, name.');
    expect(() => createCsvSystem(null).checkTitles?.(['name'])).toThrow(
      /^No column is named as a field\. .*it has: name\.$/,
    );
  });
});
