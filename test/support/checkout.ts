import { cp, symlink, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT: string = fileURLToPath(new URL('../..', import.meta.url));

/** All files that a build and `npm pack` read. */
export const CHECKOUT: readonly string[] =
  `.npmrc package.json package-lock.json prisma prisma.config.ts docs CHANGELOG.md README.md
  schema.graphql subgraph.graphql src tsconfig.json`.split(/\s+/);

/** A checkout after `npm ci`, of which nothing is generated. A test can build there while other tests use the main build. */
export async function copyCheckout(to: string): Promise<void> {
  const generated = join(ROOT, 'src/db/generated');
  for (const name of CHECKOUT) {
    const filter = (path: string) => path !== generated;
    await cp(join(ROOT, name), join(to, name), { recursive: true, preserveTimestamps: true, filter });
  }
  await symlink(join(ROOT, 'node_modules'), join(to, 'node_modules'));
}

/** Puts the build that the tests run into such a checkout. Its folders are newer, so the build is as of now: `npm start` would make it again. */
export async function copyBuild(to: string): Promise<void> {
  await cp(join(ROOT, 'dist'), join(to, 'dist'), { recursive: true, preserveTimestamps: true });
  await utimes(join(to, 'dist/build.json'), new Date(), new Date());
}
