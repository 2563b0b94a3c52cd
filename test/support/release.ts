import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT } from './checkout.js';
import type { Command } from './command.js';

/** The steps of a migration that a newer release may have, one of each kind. A batch changes so many users. */
export const shoeSizes = (batch: number) => `
-- step: adds a column
-- locks: users (ACCESS EXCLUSIVE)
ALTER TABLE users ADD COLUMN shoe_size int;

-- step without a transaction: makes an index
-- locks: users (SHARE UPDATE EXCLUSIVE)
CREATE INDEX CONCURRENTLY IF NOT EXISTS users_shoe_size_idx ON users (project_id, shoe_size);

-- step in batches: gives everybody a size
-- locks: users (ROW EXCLUSIVE)
UPDATE users SET shoe_size = 40 WHERE (project_id, id) IN (SELECT project_id, id FROM users WHERE shoe_size IS NULL LIMIT ${batch});
`;

/** Another release: a copy of this build with another version and other migrations. */
export interface Release {
  readonly version: string;
  readonly folder: string;
  /** Runs it, like `userdir`. */
  readonly command: Command;
  remove(): void;
}

/** `migrations` are added to those of this build, by the name of their folder. */
export function makeRelease(version: string, migrations: Record<string, string> = {}): Release {
  const folder = mkdtempSync(join(tmpdir(), 'userdir-release-'));
  // Hard links: a module that is a symbolic link would look beside the original.
  execFileSync('cp', ['-al', join(ROOT, 'dist'), folder]);
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ ...manifest, version }));
  mkdirSync(join(folder, 'prisma'));
  execFileSync('cp', ['-R', join(ROOT, 'prisma/migrations'), join(folder, 'prisma')]);
  for (const [name, sql] of Object.entries(migrations)) {
    mkdirSync(join(folder, 'prisma/migrations', name));
    writeFileSync(join(folder, 'prisma/migrations', name, 'migration.sql'), sql);
  }
  return {
    version,
    folder,
    command: [process.execPath, join(folder, 'dist/cli.js')],
    remove: () => rmSync(folder, { recursive: true }),
  };
}
