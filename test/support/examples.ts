import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { Json } from './app.js';
import { ROOT } from './checkout.js';

/**
 * The code blocks of a documentation page. `sh` and `graphql` blocks are run. `json variables` belongs to the `graphql`
 * block before it, and a `json` or `text` block is the answer of the block before it. `ts NAME` and `py NAME` are files.
 * test/unit/source.test.ts checks a `tree`, test/process/operating.test.ts checks `ini`. Any other kind is refused, so that every block is checked.
 */

export interface Example {
  /** The line number in the page. */
  readonly line: number;
  readonly kind: 'sh' | 'graphql' | 'ts' | 'py';
  readonly code: string;
  /** The file name of a `ts` or `py` block. */
  readonly file: string;
  variables?: Json;
  answer?: { readonly kind: 'json' | 'text'; readonly text: string };
}

export interface Page {
  readonly path: string;
  readonly text: string;
  readonly examples: readonly Example[];
}

export async function readPage(path: string): Promise<Page> {
  const text = await readFile(join(ROOT, path), 'utf8');
  const examples: Example[] = [];
  for (const { index, 1: info = '', 2: code = '' } of text.matchAll(/^```(.*)\n([\s\S]*?)^```$/gm)) {
    const line = text.slice(0, index).split('\n').length;
    const [kind, word = ''] = info.split(' ');
    const previous = examples.at(-1);
    if (kind === 'sh' || kind === 'graphql' || kind === 'ts' || kind === 'py')
      examples.push({ line, kind, code, file: word });
    else if (previous !== undefined && info === 'json variables') previous.variables = JSON.parse(code);
    else if (previous !== undefined && (info === 'json' || info === 'text'))
      previous.answer = { kind: info, text: code };
    else if (!['regexp', 'mermaid', 'tree', 'ini', 'nginx'].includes(info))
      throw new Error(`${path}:${line} is a code block of the unknown kind "${info}".`);
  }
  return { path, text, examples };
}

/** Compares the output of an example with its page. On the page, "…" stands for any text. */
export function requireShown(actual: string, { answer }: Example): void {
  if (answer === undefined) return;
  if (answer.kind === 'json') expect(JSON.parse(actual)).toEqual(withWildcards(JSON.parse(answer.text)));
  else expect(actual.trim()).toMatch(wildcard(answer.text.trim()));
}

function withWildcards(value: Json): Json {
  if (typeof value === 'string' && value.includes('…')) return expect.stringMatching(wildcard(value));
  if (Array.isArray(value)) return value.map(withWildcards);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, withWildcards(each)]));
}

function wildcard(text: string): RegExp {
  const literals = text.split('…').map((literal) => literal.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${literals.join('[^\\n]*')}$`);
}
