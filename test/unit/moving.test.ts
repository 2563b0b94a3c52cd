import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Papa from 'papaparse';
import { expect, test } from 'vitest';
import { parseLine } from '../../src/domain/import-format.js';
import { isField, linesOf, type SourceRecord, type System } from '../../src/users/moving/person.js';
import { SYSTEMS, systemNamed } from '../../src/users/moving/systems.js';
import { createDateReader, isEmpty, textOf } from '../../src/users/moving/values.js';

/* Each sample beside the import lines and the report that it gives. The lines were checked by hand against the meaning of the sample. */

const SAMPLES = join(import.meta.dirname, '../moving/samples');

test.for([
  ['auth0', 'export.ndjson'],
  ['auth0', 'export.csv'],
  ['auth0', 'import-schema.json'],
  ['clerk', 'api.json'],
  ['clerk', 'export.csv'],
  ['firebase', 'users.json'],
  ['firebase', 'users.csv'],
  ['supabase', 'auth_users.csv', 'auth_identities.csv'],
  ['supabase', 'auth_users.csv'],
  ['cognito', 'list-users.json'],
  ['cognito', 'import.csv'],
  ['keycloak', 'realm-export.json'],
  ['privy', 'users.json'],
  ['dynamic', 'users.json'],
])('%s: %s %s', async ([name = '', ...files]) => {
  const system = systemNamed(name);
  await expect(report(system, files)).toMatchFileSnapshot(join(SAMPLES, name, `${files.join('+')}.expected.json`));
});

test('each system has a sample', () => {
  expect(SYSTEMS.length).toBeGreaterThan(4);
});

test('a name of no system is refused with the names that are', () => {
  expect(systemNamed('Auth0').name).toBe('auth0');
  expect(() => systemNamed('parse')).toThrow(/^from: got "parse", expected csv or one of auth0, clerk,/);
});

function report(system: System, files: readonly string[], format: string | null = null): string {
  const counts: Record<string, number> = {};
  const note = (what: string) => {
    counts[what] = (counts[what] ?? 0) + 1;
  };
  const readDate = createDateReader({ format, zone: 'UTC', note });
  const lines: string[] = [];
  for (const record of recordsOf(system, files)) {
    for (const [field, value] of Object.entries(record)) if (!isField(system, field) && !isEmpty(value)) note(field);
    const person = system.toPerson(record);
    if (typeof person === 'string') {
      note(`left out: ${person}`);
      continue;
    }
    const { user, bans } = linesOf(person, { system: system.name, trustUnverified: false, readDate, note });
    lines.push(...[user, ...bans].map((line) => JSON.stringify(line)));
  }
  for (const line of lines) expect(parseLine(Buffer.from(line))).not.toBeNull();
  return `{"lines":[\n${lines.join(',\n')}\n],"notKept":${JSON.stringify(counts, null, 2)}}\n`;
}

function recordsOf({ name, lists = [], columns = [], joined }: System, files: readonly string[]): SourceRecord[] {
  const [records = [], others = []] = files.map((file) => {
    const text = readFileSync(join(SAMPLES, name, file), 'utf8');
    if (file.endsWith('.ndjson'))
      return text
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
    if (file.endsWith('.json')) return listOf(JSON.parse(text), lists);
    const rows = Papa.parse<string[]>(text, { skipEmptyLines: true }).data;
    const titles =
      columns.length > 0 ? columns : (rows.shift() ?? []).map((title) => title.toLowerCase().replaceAll(' ', '_'));
    return rows.map((cells) =>
      Object.fromEntries(titles.map((title, place) => [title, cells[place]]).filter(([, cell]) => cell)),
    );
  });
  if (joined === undefined || files.length === 1) return records;
  return records.map((record) => ({
    ...record,
    [joined.as]: others.filter((other) => other[joined.key] === textOf(record['id'])),
  }));
}

function listOf(value: unknown, lists: readonly string[]): SourceRecord[] {
  if (Array.isArray(value)) return value;
  const object = value as Record<string, unknown>;
  const list = lists.map((name) => object[name]).find((item) => item !== undefined);
  return listOf(list, lists);
}
