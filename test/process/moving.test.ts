import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { withoutIds } from '../support/app.js';
import { type Credentials, useServer } from '../support/command.js';
import { isNightly } from '../support/nightly.js';
import { SAMPLES } from '../support/samples.js';

/* Samples of other systems by the command: what arrives is what the lines beside each sample give. */

const CASES = readdirSync(SAMPLES).flatMap((system) =>
  readdirSync(join(SAMPLES, system))
    .filter((file) => file.endsWith('.expected.json'))
    .map((file) => ({ system, files: file.replace('.expected.json', ''), expected: join(SAMPLES, system, file) })),
);

const command = useServer();
/** What has no date of its own has that of the import. */
const beganAt = Date.now();

async function exportOf({ app_id }: Credentials): Promise<string[]> {
  const { stdout } = await command.run('user', 'export', '--project', app_id);
  return withoutIds(stdout)
    .replaceAll(/"(\d{4}-\d\d-\d\dT[\d:.]+Z)"/g, (date, at) =>
      beganAt < Date.parse(at) && Date.parse(at) < Date.now() ? '"now"' : date,
    )
    .split('\n')
    .toSorted();
}

/** Of the systems whose files are read in another way: in pieces, joined, as a table, by a map. `unit/moving` reads the samples of all of them. */
const OF_EACH_KIND = ['auth0', 'csv', 'fusionauth', 'supabase'];

test.for(CASES.filter(({ system }) => isNightly || OF_EACH_KIND.includes(system)))(
  '$system: $files',
  async ({ system, files, expected }) => {
    const [moved, lines] = [await command.createProject(), await command.createProject()];
    const paths = files.split('+').map((file) => join(SAMPLES, system, file));
    const map = (paths[0] as string).replace(/(-cp1252|-utf16)?\.\w+$/, '.map.json');
    const more = [
      ...(system === 'csv' ? ['--dates', 'dd.MM.yyyy HH:mm:ss'] : []),
      ...(existsSync(map) ? ['--map', map] : []),
    ];
    const importTo = async (project: Credentials, args: readonly string[], input = '') => {
      const all = ['user', 'import', '--project', project.app_id, '--skip-invalid', '--json', ...args];
      return JSON.parse((await command.runWith(input, ...all)).stdout);
    };
    const report = await importTo(moved, ['--from', system, ...more, ...paths]);
    const text = JSON.parse(readFileSync(expected, 'utf8'))
      .lines.map((line: object) => JSON.stringify(line))
      .join('\n');
    const { created, failed } = await importTo(lines, [], text);
    expect(report).toMatchObject({ created, failed });
    expect(created).toBeGreaterThan(0);
    expect(await exportOf(moved)).toEqual(await exportOf(lines));
  },
);
