import { cp, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT: string = fileURLToPath(new URL('../..', import.meta.url));

/** All files that a build and `npm pack` read. */
export const CHECKOUT: readonly string[] = [
  '.npmrc',
  'package.json',
  'package-lock.json',
  'prisma',
  'prisma.config.ts',
  'docs',
  'CHANGELOG.md',
  'README.md',
  'schema.graphql',
  'subgraph.graphql',
  'src',
  'tsconfig.json',
];

/** What `git clone` makes: nothing is installed, generated or built. */
export async function cloneCheckout(to: string): Promise<void> {
  const generated = ['src/db/generated'].map((path) => join(ROOT, path));
  for (const name of CHECKOUT) {
    await cp(join(ROOT, name), join(to, name), { recursive: true, filter: (path) => !generated.includes(path) });
  }
}

/** A checkout after `npm ci` without a build. A test can build there while other tests use the main build. */
export async function copyCheckout(to: string): Promise<void> {
  await cloneCheckout(to);
  await symlink(join(ROOT, 'node_modules'), join(to, 'node_modules'));
}
