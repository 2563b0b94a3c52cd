import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { joinRows } from '#dist/users/moving/csv.js';
import type { SourceRecord, System } from '#dist/users/moving/person.js';
import { readFile } from '#dist/users/moving/read.js';

/** What other systems export, a folder for each, beside what is read from it. */
export const SAMPLES: string = join(import.meta.dirname, '../moving/samples');

/** The records of a sample as an import reads them. */
export async function recordsOf(system: System, path: string): Promise<SourceRecord[]> {
  const { records } = await readFile(createReadStream(path), system);
  const all = [];
  for await (const some of system.joinBy === undefined ? records : joinRows(records, system.joinBy)) all.push(...some);
  return all.map(({ read }) => read());
}
