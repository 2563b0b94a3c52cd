/*
 * Makes the files of a release: the package, the SBOM (CycloneDX) of what it installs, and SHA256SUMS. Without a folder, which is for trials, they
 * are made in `release`, and the commit gets the tag of the version: it must be a clean one that no other commit has.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { extract } from 'tar';

const run = promisify(execFile);
const npm = (args, cwd) => run('npm', args, { cwd, maxBuffer: 2 ** 26 });

const git = async (...args) => (await run('git', args)).stdout.trim();

const [, , trial] = process.argv;
const folder = trial ?? 'release';
const { name, version } = JSON.parse(await readFile('package.json', 'utf8'));
const tag = `v${version}`;
if (trial === undefined) await requireTaggable();
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
if (trial === undefined) {
  await git('tag', '--force', '--annotate', '--message', `${name} ${version}`, tag);
  process.stdout.write(
    `Tagged ${await git('rev-parse', '--short', 'HEAD')} as ${tag}. Publish it: git push origin ${tag}\n`,
  );
}

async function requireTaggable() {
  const changed = await git('status', '--porcelain');
  if (changed !== '') stop(`A release is of a commit. These files differ from it:\n${changed}`);
  const known = await git('tag', '--list', tag);
  if (known === '' || (await git('rev-parse', `${tag}^{commit}`)) === (await git('rev-parse', 'HEAD'))) return;
  stop(`${tag} is the tag of another commit. Raise the version in package.json.`);
}

function stop(sentence) {
  process.stderr.write(`${sentence}\n`);
  process.exit(1);
}
