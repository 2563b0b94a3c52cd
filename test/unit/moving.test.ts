import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { PAST, parseLine, UNTIL } from '#dist/domain/import-format.js';
import { EXPORT_TARGETS, SYSTEM_NAMES, SYSTEM_TITLES, type SystemName } from '#dist/domain/systems.js';
import { createCsvSystem } from '#dist/users/moving/csv.js';
import { createMove } from '#dist/users/moving/move.js';
import { createFieldTest, linesOf, type SourceRecord, type System } from '#dist/users/moving/person.js';
import { readFile } from '#dist/users/moving/read.js';
import { systemNamed } from '#dist/users/moving/systems.js';
import { createDateReader, isEmpty, textOf } from '#dist/users/moving/values.js';
import { recordsOf, SAMPLES } from '../support/samples.js';

/* Samples of exports beside the import lines and the counts that they give, which were checked by hand against the meaning of the sample. */

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
  const texts = files.map((file) => readFileSync(join(SAMPLES, 'supabase', file), 'utf8'));
  const summary = await moveTexts(systemNamed('supabase'), ...texts);
  expect(summary).toMatchObject({ people: 17, identities: { email: 8, google: 3, wallet: 2, supabase: 3 } });
  expect(summary.not_kept).not.toHaveProperty('identities without an ID');
});

test.each([
  [0, 'before the first record'],
  [1, 'after record 1'],
  [2, 'after record 2'],
])('a file that ends after %i records says so', async (count, where) => {
  const records = Array.from({ length: count }, (_, n) => `${JSON.stringify({ id: `user_${n}` })},`);
  async function* bytes() {
    yield Buffer.from(`[${records.join('')}`);
  }
  const read = async () => {
    const { records } = await readFile(bytes(), systemNamed('clerk'));
    for await (const _ of records);
  };
  await expect(read()).rejects.toThrow(`The file is cut off ${where}.`);
});

describe.each([
  ['links in a second file', 100, moveLinks],
  ['rows of a table', 100, moveRows],
] as const)('a person may have %s, %i of them', (_, most, move) => {
  test.each([most - 1, most])('%i are taken', async (count) => {
    const { people, identities } = await move(count);
    expect(people).toBe(1);
    expect(identities).toEqual({ google: LOGINS });
  });

  test.each([most + 1, most + 2, 3 * most])('%i are refused', async (count) => {
    await expect(move(count)).rejects.toThrow('A person has more than 100 rows.');
  });
});

/** Moves files that are given as texts, and says what was in them. */
async function moveTexts(system: System, ...texts: string[]) {
  const parts = texts.map((text) => Buffer.from(text));
  const input = {
    async *[Symbol.asyncIterator]() {
      yield* parts;
    },
  };
  const move = createMove({ system, sizes: parts.map(({ length }) => length) });
  for await (const lines of move.read(input)) for (const { read } of lines) read();
  return move.summary();
}

/** They repeat some logins: a person may not have as many of these. */
const LOGINS = 5;
const loginsOf = (count: number) => Array.from({ length: count }, (_, index) => String(index % LOGINS));

function moveLinks(count: number) {
  const links = loginsOf(count).map((n) => ({
    identityProviderId: 'g',
    identityProviderType: 'Google',
    identityProviderUserId: n,
    userId: 'a',
  }));
  const users = { users: [{ id: 'a', active: true, insertInstant: 1_672_656_134_123, identities: [] }] };
  return moveTexts(systemNamed('fusionauth'), JSON.stringify(users), JSON.stringify({ identityProviderLinks: links }));
}

function moveRows(count: number) {
  const map = { join: 'uid', auth_method: { value: 'google' }, auth_value: 'sub' };
  const system = createCsvSystem(JSON.stringify(map));
  const rows = loginsOf(count).map((login) => `7,${login}`);
  return moveTexts(system, ['uid,sub', ...rows, ''].join('\n'));
}

test('each system has a sample', () => {
  expect(SYSTEM_NAMES).toEqual([...new Set(CASES.map(([name]) => name))].filter((name) => name !== 'csv'));
});

describe('the documentation', () => {
  const page = (name: string) => readFileSync(join(import.meta.dirname, '../../docs', name), 'utf8');
  const [, into = '', out = ''] = page('systems.md').split(/^## (?:In|Out)$/m);
  /** The names and what they are called there. */
  const rows = [...into.matchAll(/^\| ([^|]+) \|.*\| `([a-z0-9]+)` \|[^|]*\|$/gm)].map(([, title, name]) => ({
    title,
    name,
  }));
  const systems = rows.filter(({ name }) => name !== 'csv');

  test('tells how to export from each system', () => {
    expect(systems.map(({ name }) => name)).toEqual(SYSTEM_NAMES);
    for (const { title = '', name } of systems) {
      const known: string = SYSTEM_TITLES[name as SystemName];
      expect(known.startsWith(title) || title.startsWith(known), `${title} is ${known}`).toBe(true);
    }
  });

  test('lists all systems where a reader begins', () => {
    const titles = /has the export of each: (.*?)\. Passwords/.exec(page('moving.md'))?.[1];
    expect(titles?.split(', ')).toEqual(systems.map(({ title }) => title));
  });

  test('tells what each system cannot hold to which users leave', () => {
    expect([...out.matchAll(/^\| `([a-z0-9]+)` \|/gm)].map(([, name]) => name)).toEqual([...EXPORT_TARGETS, 'csv']);
  });
});

function systemOf(name: string, files: readonly string[]): System {
  if (name !== 'csv') return systemNamed(name);
  const map = join(SAMPLES, name, (files[0] as string).replace(/(-cp1252|-utf16)?\.\w+$/, '.map.json'));
  return createCsvSystem(existsSync(map) ? readFileSync(map, 'utf8') : null);
}

/** The lines of files, each on its own line, and what was counted. */
async function report(
  system: System,
  folder: string,
  files: readonly string[],
  spelled: (record: SourceRecord) => SourceRecord = (record) => record,
): Promise<string> {
  const [kept, notKept] = [new Map<string, number>(), new Map<string, number>()];
  const countIn = (counts: Map<string, number>) => (what: string) => counts.set(what, (counts.get(what) ?? 0) + 1);
  const [note, drop] = [countIn(kept), countIn(notKept)];
  const readDate = createDateReader({ format: folder === 'csv' ? 'dd.MM.yyyy HH:mm:ss' : null, zone: 'UTC', note });
  const isField = createFieldTest(system);
  const lines: string[] = [];
  const [records = [], others = []] = await Promise.all(
    files.map((file) => recordsOf(system, join(SAMPLES, folder, file))),
  );
  for (const record of records.map(spelled)) {
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

function withJoined(record: SourceRecord, others: readonly SourceRecord[], { joined, idFields }: System): SourceRecord {
  if (joined === undefined || others.length === 0) return record;
  const id = textOf(record[idFields[0] as string]);
  return { ...record, [joined.as]: others.filter((other) => other[joined.key] === id) };
}

describe('a mapping', () => {
  const refused = (map: unknown) => () => createCsvSystem(typeof map === 'string' ? map : JSON.stringify(map));

  test('names the field that is wrong', () => {
    expect(refused('{"email": }')).toThrow(/^map: not valid JSON: /);
    expect(refused({ mail: 'Email' })).toThrow(/^map: got "mail", expected one of auth_method, auth_value,/);
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

describe('an email', () => {
  const EMAIL = /[\w.+-]+@[\w.-]+/g;
  /** Writes each email of a record anew, in letters of any case. */
  function spell(value: unknown, isUpper: () => boolean): unknown {
    if (typeof value === 'string')
      return value.replace(EMAIL, (email) =>
        Array.from(email, (letter) => (isUpper() ? letter.toUpperCase() : letter.toLowerCase())).join(''),
      );
    if (Array.isArray(value)) return value.map((item) => spell(item, isUpper));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, spell(item, isUpper)]));
  }

  test.for(CASES)('is the same in capitals, wherever it stands: %s: %s %s', async ([name = '', ...files]) => {
    const expected = (await report(systemOf(name, files), name, files)).toLowerCase();
    await fc.assert(
      fc.asyncProperty(fc.infiniteStream(fc.boolean()), async (upper) => {
        const isUpper = () => upper.next().value === true;
        const spelled = (record: SourceRecord) => spell(record, isUpper) as SourceRecord;
        expect((await report(systemOf(name, files), name, files, spelled)).toLowerCase()).toBe(expected);
      }),
      { numRuns: 5 },
    );
  });
});

const NEVER = [
  ...['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.0000000Z', '0001-01-01', '0001-01-01 00:00:00+00'],
  ...['0000-00-00 00:00:00', '0000-00-00', '0', 0, '0.0', '1601-01-01T00:00:00Z', -62135596800000, '-62135596800'],
];

describe('a date', () => {
  const read = (value: unknown, range = PAST) => {
    const notes: string[] = [];
    const note = (what: string) => notes.push(what);
    return [createDateReader({ format: null, zone: 'UTC', note })('created_at', range, value), notes];
  };

  test.each(NEVER)('of never is none, and counted: %j', (value) => {
    expect(read(value)).toEqual([null, ['dates that mean never, read as none']]);
    expect(read(value, UNTIL)[0]).toBeNull();
  });

  test.each([
    [253402300800000, 'got 253402300800000, expected'],
    [99999999999, 'got 99999999999, expected a date or an RFC 3339 date-time, from 1970 to now'],
    ['9998-01-01 00:00:00', 'got "9998-01-01 00:00:00", expected a date or an RFC 3339 date-time, from 1970 to now'],
    ['1969-07-20T20:17:40Z', 'got "1969-07-20T20:17:40Z", expected a date or an RFC 3339 date-time, from 1970 to now'],
    ['0001-02-30', 'got "0001-02-30", expected a date that exists'],
    ['yesterday', 'got "yesterday", expected RFC 3339, seconds'],
  ])('that is refused is shown as it stands in the file: %j', (value, words) => {
    expect(() => read(value)).toThrow(`created_at: ${words}`);
  });

  test('of never as the end of a ban means that nobody is banned', () => {
    const record = {
      id: 'u-1',
      identities: [{ provider: 'google', provider_id: 'g' }],
      banned_until: '0001-01-01T00:00:00Z',
    };
    const notes: string[] = [];
    const note = (what: string) => notes.push(what);
    const person = systemNamed('supabase').toPerson(record);
    if (typeof person === 'string' || 'line' in person) throw new TypeError('It is a person.');
    const readDate = createDateReader({ format: null, zone: 'UTC', note });
    const options = { system: 'supabase', title: 'Supabase', trustUnverified: false, readDate, note, drop: note };
    expect(linesOf(person, options).bans).toEqual([]);
    expect(notes).toContain('dates that mean never, read as none');
  });
});

describe('what has happened in a table, by its date', () => {
  const system = createCsvSystem(
    '{"external_id":"id","email":"email","email_verified":"email_verified","deleted":"deleted"}',
  );
  const personOf = (cells: SourceRecord) => system.toPerson({ id: '1', email: 'ada@example.com', ...cells });
  const verified = (cell: unknown) => {
    const person = personOf({ email_verified: cell });
    return typeof person === 'string' || 'line' in person ? null : person.logins[0]?.verified;
  };

  test.each(NEVER)('has not by one that means never: %j', (cell) => {
    expect(verified(cell)).toBe(false);
    expect(personOf({ deleted: cell })).not.toBe('deleted records');
  });

  test.each(['2024-03-03T00:00:00.000Z', 1709424000000, '01.02.2024'])('has by any other: %j', (cell) => {
    expect(verified(cell)).toBe(true);
    expect(personOf({ deleted: cell })).toBe('deleted records');
  });
});
