import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { INPUT_LIMITS } from '#dist/domain/input-limits.js';
import { LIMITS } from '#dist/engine/limits.js';
import { ROOT } from '../support/checkout.js';

/** `docs/limits.md` and the service agree. */

/** The rows of the table below a heading; each row is a list of cells. */
async function tableBelow(heading: string): Promise<string[][]> {
  const page = await readFile(join(ROOT, 'docs/limits.md'), 'utf8');
  const section = page.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? '';
  const rows = section.split('\n').filter((line) => line.startsWith('| '));
  return rows.slice(1).map((row) => row.slice(2, -2).split(' | '));
}

test('the table of texts lists the limits that the service enforces', async () => {
  const documented = (await tableBelow('Texts')).flatMap(([atMost, texts = '']) =>
    texts.split(', ').map((text) => `${text} ${atMost}`),
  );
  const enforced = Object.entries(INPUT_LIMITS).map(([name, { max, unit }]) => `\`${name}\` ${max} ${unit}`);
  expect(documented.sort()).toEqual(enforced.sort());
});

test('the table of GraphQL documents lists the limits that the service enforces', async () => {
  const documented = (await tableBelow('A GraphQL document')).map(([name = '', value = '']) => {
    return [name.split(':')[0], Number(value.replaceAll(',', ''))];
  });
  const names: Record<string, string> = {
    rootFields: 'root fields',
    subscriptionBytes: 'bytes of a request for a subscription',
    eventCost: 'cost of the largest event',
  };
  const expected = Object.entries(LIMITS).map(([name, value]) => [names[name] ?? name, value]);
  expect(documented.filter(([, value]) => !Number.isNaN(value))).toEqual(expected);
});
