import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The migrations of this package in Prisma's layout: one folder for each, applied in the order of their names. */
const MIGRATIONS_DIR = fileURLToPath(new URL('../../prisma/migrations/', import.meta.url));

/** The way in which a step runs (docs/decisions/migrations.md). */
export type StepMode = 'in one transaction' | 'without a transaction' | 'in batches';

/** A part of a migration that is done as a whole, after the parts before it. */
export interface Step {
  readonly what: string;
  readonly mode: StepMode;
  readonly locks: readonly { readonly table: string; readonly lock: string }[];
  readonly sql: string;
}

export interface Migration {
  readonly name: string;
  /** SHA-256 of the file. */
  readonly checksum: string;
  readonly steps: readonly Step[];
}

export async function readMigrations(folder = MIGRATIONS_DIR): Promise<Migration[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  const names = entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
  return Promise.all(
    names.sort().map(async (name) => {
      const sql = await readFile(join(folder, name, 'migration.sql'), 'utf8');
      return { name, checksum: createHash('sha256').update(sql).digest('hex'), steps: cut(name, sql) };
    }),
  );
}

const STEP = /^-- step( without a transaction| in batches)?: (.+)\n(?:-- locks: (.+)\n)?/m;
const LOCK = /^(\w+) \(([A-Z ]+)\)$/;

/** A line `-- step: what it does` begins a step; a line `-- locks: users (ACCESS EXCLUSIVE)` may follow. */
function cut(name: string, sql: string): Step[] {
  const [head = '', ...parts] = sql.split(new RegExp(STEP, 'gm'));
  if (parts.length === 0) throw new Error(`Migration ${name} has no step: begin it with "-- step: what it does".`);
  if (head.split('\n').some((line) => /^(?!--)\s*\S/.test(line)))
    throw new Error(`Migration ${name} has statements before its first step.`);
  // Of each step: its mode, what it does, its locks, its statements.
  return Array.from({ length: parts.length / 4 }, (_, index) => {
    const [mode = '', what = '', locks = '', statements = ''] = parts.slice(4 * index, 4 * index + 4);
    return {
      what,
      mode: (mode.trim() || 'in one transaction') as StepMode,
      locks: locks === '' ? [] : locks.split(', ').map((text) => parseLock(name, text)),
      sql: statements.trim(),
    };
  });
}

function parseLock(name: string, text: string) {
  const [, table = '', lock = ''] = LOCK.exec(text) ?? [];
  if (table === '') throw new Error(`Migration ${name} has a malformed lock: "${text}", expected "users (SHARE)".`);
  return { table, lock };
}
