import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { MEANINGS } from '#dist/errors.js';

/** docs/errors.md with its table made from the codes: on standard output, or in the file for `npm run docs:errors`. */

const PAGE = fileURLToPath(new URL('../../docs/errors.md', import.meta.url));
const TABLE = /(?<=^\| code \| status \| cause \| what to do \|\n\|---\|---\|---\|---\|\n)(\|.*\n)*/m;

const rows = Object.entries(MEANINGS).map(
  ([code, { status, cause, remedy }]) => `| \`${code}\` | ${status} | ${cause} | ${remedy} |\n`,
);
const page = readFileSync(PAGE, 'utf8').replace(TABLE, () => rows.join(''));
if (process.argv[2] === '--write') writeFileSync(PAGE, page);
else process.stdout.write(page);
