import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
/** The files of a complete build, as paths from the root. `npm run build` deletes this list first and writes it last. */
const LIST = join(ROOT, 'dist/build.json');
const IS_PART = /^dist\/(dashboard\/pages\/.*|[^.].*\.(js|tgz|gz))$|^prisma\/migrations\/.*\.sql$/;

/** The last step of the build. */
export function listBuild(): void {
  const entries = ['dist', 'prisma/migrations'].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true }),
  );
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)));
  writeFileSync(LIST, JSON.stringify(files.filter((file) => IS_PART.test(file)).sort(), null, 1));
}

/** Why the build cannot be run, in a few words. Null if all of it is there. */
export function findBuildFault(): string | null {
  if (!existsSync(LIST)) return 'the build has not ended';
  const files: string[] = JSON.parse(readFileSync(LIST, 'utf8'));
  const missing = files.filter((file) => !existsSync(join(ROOT, file)));
  if (missing.length === 0) return null;
  return `the build lacks ${missing[0]}${missing.length > 1 ? `, and ${missing.length - 1} more files` : ''}`;
}

export const BUILD_ADVICE = 'Run rm -rf dist && npm run build, or install the package again.';

/** The parts of package.json that are used. */
export const PACKAGE: {
  readonly version: string;
  readonly engines: { readonly node: string };
  readonly dependencies: Readonly<Record<string, string>>;
} = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));

export const VERSION: string = PACKAGE.version;

/** Why this Node.js cannot run userdir. Null if it can. */
export function findNodeFault(version = process.versions.node): string | null {
  const oldest = PACKAGE.engines.node.replace('>=', '');
  return isOlder(version, oldest) ? `Node.js ${version} is too old, ${oldest} or newer is needed` : null;
}

/** True if a version is older than another one, by its three numbers. */
export function isOlder(version: string, than: string): boolean {
  const [one, other] = [version, than].map((version) =>
    version
      .replace(/[-+].*/, '')
      .split('.')
      .map(Number),
  );
  const place = [0, 1, 2].find((at) => one?.[at] !== other?.[at]) ?? 0;
  return (one?.[place] ?? 0) < (other?.[place] ?? 0);
}
