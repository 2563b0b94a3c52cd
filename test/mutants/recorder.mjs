/** Writes which function was entered in which file of tests, once for each pair. Instrumented files of the build call it. */
import { appendFileSync } from 'node:fs';

const seen = new Set();

globalThis.__entered = (name) => {
  const test = globalThis.__vitest_worker__?.filepath;
  if (test === undefined) return;
  const pair = `${name}\t${test}\n`;
  if (seen.has(pair)) return;
  seen.add(pair);
  appendFileSync(process.env.MUTANTS_ENTERED, pair);
};
