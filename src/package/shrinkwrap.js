/**
 * Writes npm-shrinkwrap.json, which the package has instead of package-lock.json. It is the same without optional peers. Prisma's command and
 * TypeScript are optional peers of @prisma/client and are locked for development; with these edges `npm ci --omit=dev` would install both.
 */
import { readFile, writeFile } from 'node:fs/promises';

const lock = JSON.parse(await readFile('package-lock.json', 'utf8'));
for (const { peerDependencies = {}, peerDependenciesMeta = {} } of Object.values(lock.packages)) {
  for (const [name, { optional }] of Object.entries(peerDependenciesMeta)) if (optional) delete peerDependencies[name];
}
await writeFile('npm-shrinkwrap.json', `${JSON.stringify(lock, null, 2)}\n`);
