import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { linesOf, type SourceRecord, type System } from '#dist/users/moving/person.js';
import { systemNamed } from '#dist/users/moving/systems.js';
import { createDateReader } from '#dist/users/moving/values.js';
import { recordsOf, SAMPLES } from '../support/samples.js';

/**
 * What each field of another system's record is for: beside each sample stands what becomes of a person when one field is absent, null, empty, or
 * the other one of true and false; of each place once for each kind of difference. A field of which nothing stands there is only kept in the
 * metadata, or dropped, which the sample itself shows.
 */

const CASES = readdirSync(SAMPLES)
  .filter((system) => system !== 'csv')
  .flatMap((system) =>
    readdirSync(join(SAMPLES, system))
      .filter((file) => /\.(json|ndjson)$/.test(file) && !/\.(expected|map)\.json$/.test(file))
      .map((file) => [system, file] as const),
  )
  // Joined to the users of another file.
  .filter(([, file]) => file !== 'links.json');

type Path = readonly (string | number)[];

/** The places of all values within a value, in order; of a list the first three. */
function pathsOf(value: unknown, path: Path = []): Path[] {
  if (typeof value !== 'object' || value === null) return [];
  const entries = Array.isArray(value) ? [...value.slice(0, 3).entries()] : Object.entries(value);
  return entries.flatMap(([key, inner]) => [[...path, key], ...pathsOf(inner, [...path, key])]);
}

const ABSENT = Symbol('absent');

/** A copy with another value at a place. */
function withValue(record: unknown, [key, ...rest]: Path, value: unknown): unknown {
  if (key === undefined) return value;
  if (Array.isArray(record)) {
    const items = [...record];
    if (rest.length === 0 && value === ABSENT) items.splice(Number(key), 1);
    else items[Number(key)] = withValue(items[Number(key)], rest, value);
    return items;
  }
  const { [key]: inner, ...others } = record as Record<string, unknown>;
  if (rest.length === 0 && value === ABSENT) return others;
  return { ...(record as object), [key]: withValue(inner, rest, value) };
}

const valueAt = (record: unknown, path: Path) =>
  path.reduce<unknown>((value, key) => (value as Record<string | number, unknown>)[key], record);

/** What becomes of a record, as parts with names. */
function outcomeOf(system: System, record: SourceRecord): Record<string, unknown> {
  const told: string[] = [];
  const note = (what: string) => void told.push(what);
  try {
    const person = system.toPerson(record);
    if (typeof person === 'string') return { dropped: person };
    if ('line' in person) throw new TypeError('A system gives people.');
    const { user, bans } = linesOf(person, {
      system: system.name,
      title: system.title,
      trustUnverified: false,
      readDate: createDateReader({ format: null, zone: 'UTC', note }),
      note,
      drop: note,
    });
    const { metadata, ...columns } = user as { metadata?: object };
    return { ...columns, bans, ...(told.length > 0 && { told: told.toSorted() }), kept: Object.keys(metadata ?? {}) };
  } catch (error) {
    return { error: (error as Error).message };
  }
}

/** What is another than before, by its names and as text; null if nothing is, but that the metadata has the field or not. */
function differenceOf(before: Record<string, unknown>, after: Record<string, unknown>) {
  const ended = ['dropped', 'error'].filter((name) => name in after && !(name in before));
  const all = ended.length > 0 ? ended : [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const names = all.filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
  if (names.join() === 'kept' || names.length === 0) return null;
  return {
    names: names.join(),
    text: names.map((name) => `${name} ${JSON.stringify(after[name]) ?? 'absent'}`).join(', '),
  };
}

const VALUES: [name: string, value: (before: unknown) => unknown][] = [
  ['absent', () => ABSENT],
  ['null', () => null],
  ['empty', () => ''],
  ['not so', (before) => (typeof before === 'boolean' ? !before : before)],
];

test.each(CASES)('%s: %s', async (name, file) => {
  const system = systemNamed(name);
  const lines: string[] = [];
  const seen = new Set<string>();
  for (const [place, record] of (await recordsOf(system, join(SAMPLES, name, file))).entries()) {
    const before = outcomeOf(system, record);
    for (const path of pathsOf(record)) {
      const shown = path.join('.');
      const byText = new Map<string, string[]>();
      for (const [what, value] of VALUES) {
        const changed = withValue(record, path, value(valueAt(record, path))) as SourceRecord;
        const difference = differenceOf(before, outcomeOf(system, changed));
        const kind = `${shown.replaceAll(/\d+/g, 'n')} ${what} ${difference?.names}`;
        if (difference === null || seen.has(kind)) continue;
        seen.add(kind);
        byText.set(difference.text, [...(byText.get(difference.text) ?? []), what]);
      }
      for (const [text, what] of byText) lines.push(`${place + 1} ${shown} ${what.join(' or ')}: ${text}`);
    }
  }
  await expect(`${lines.join('\n')}\n`).toMatchFileSnapshot(join(SAMPLES, name, `${file}.fields.txt`));
});
