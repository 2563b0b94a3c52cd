/* Writes npm-shrinkwrap.json: package-lock.json without optional peers, which `npm ci --omit=dev` would install (Prisma, TypeScript). */
import { readFile, writeFile } from 'node:fs/promises';

const lock = JSON.parse(await readFile('package-lock.json', 'utf8'));
const { packages } = lock;
for (const { peerDependencies = {}, peerDependenciesMeta = {} } of Object.values(packages)) {
  for (const [name, { optional }] of Object.entries(peerDependenciesMeta)) if (optional) delete peerDependencies[name];
}

// npm 10 believes what the lock says of each package, npm 11 looks for itself.
const needed = new Set(['']);
for (const path of needed) {
  const { dependencies, optionalDependencies, peerDependencies } = packages[path];
  for (const name of Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies })) {
    const found = findPackage(path, name);
    if (found !== undefined) needed.add(found);
  }
}
for (const [path, entry] of Object.entries(packages)) {
  delete entry.devOptional;
  if (!needed.has(path)) entry.dev = true;
}
await writeFile('npm-shrinkwrap.json', `${JSON.stringify(lock, null, 2)}\n`);

/** The place where Node.js finds a package for the one at `path`. */
function findPackage(path, name) {
  for (let from = `${path}/`; ; from = from.slice(0, from.lastIndexOf('node_modules/'))) {
    const candidate = `${from === '/' ? '' : from}node_modules/${name}`;
    if (candidate in packages) return candidate;
    if (!from.includes('node_modules/')) return undefined;
  }
}
