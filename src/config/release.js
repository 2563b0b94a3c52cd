/* Makes the files of a release, in the folder that is given or in `release`: the package, the SBOM (CycloneDX) of what it installs, and SHA256SUMS. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { extract } from 'tar';

const run = promisify(execFile);
const npm = (args, cwd) => run('npm', args, { cwd, maxBuffer: 2 ** 26 });

const folder = process.argv[2] ?? 'release';
const { name, version } = JSON.parse(await readFile('package.json', 'utf8'));
const files = [`${name}-${version}.tgz`, `${name}-${version}.cdx.json`];
const [archive, bill] = files.map((file) => join(folder, file));

await mkdir(folder, { recursive: true });
await npm(['pack', '--pack-destination', folder]);

// The bill is of the unpacked package without its devDependencies: `npm sbom --omit dev` leaves out what both production and development need.
const temporary = await mkdtemp(join(tmpdir(), 'userdir-release-'));
// The bill has the name of the folder.
const unpacked = join(temporary, name);
await mkdir(unpacked);
await extract({ file: archive, cwd: unpacked, strip: 1 });
for (const file of ['package.json', 'npm-shrinkwrap.json']) {
  const manifest = JSON.parse(await readFile(join(unpacked, file), 'utf8'));
  delete (manifest.packages?.[''] ?? manifest).devDependencies;
  await writeFile(join(unpacked, file), JSON.stringify(manifest));
}
const sbom = ['sbom', '--sbom-format', 'cyclonedx', '--sbom-type', 'application', '--package-lock-only'];
await writeFile(bill, (await npm(sbom, unpacked)).stdout);
await rm(temporary, { recursive: true });

const sums = [];
for (const file of files) {
  const sum = createHash('sha256').update(await readFile(join(folder, file)));
  sums.push(`${sum.digest('hex')}  ${file}\n`);
}
await writeFile(join(folder, 'SHA256SUMS'), sums.join(''));
process.stdout.write(sums.join(''));
