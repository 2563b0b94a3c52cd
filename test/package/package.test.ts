import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { access, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, relative } from 'node:path';
import { promisify } from 'node:util';
import { list } from 'tar';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type { Json } from '../support/app.js';
import { CHECKOUT, copyBuild, copyCheckout, ROOT } from '../support/checkout.js';
import { type Command, call, outcomeOf, type RunningServer, spawnUserdir, startServer } from '../support/command.js';
import { copyTemplate, type TestDatabase } from '../support/engines.js';
import { isNightly } from '../support/nightly.js';

// An installation takes as long as the registry.

const run = promisify(execFile);
const { version: VERSION } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'));
const NPM_OPTIONS = ['--prefer-offline', '--no-audit', '--no-fund'];

/** What `npm run release` makes. */
interface Release {
  readonly archive: string;
  readonly bill: string;
  readonly files: readonly { path: string; size: number }[];
}

/** It needs no database, so one engine is enough. `npm run release`, which builds anew, is left to `npm run nightly`. */
describe.runIf(inject('engine') === 'embedded')('the package', () => {
  let dir: string;
  let checkout: string;
  let release: Release;
  const git = async (...args: string[]) => (await run('git', args, { cwd: checkout })).stdout.trim();
  let dockerfile: string[];

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'userdir-package-'));
    dockerfile = (await readFile(join(ROOT, 'Dockerfile'), 'utf8')).split('\n');
    checkout = join(dir, 'checkout');
    await copyCheckout(checkout);
    if (!isNightly) {
      release = await packBuild(checkout);
      return;
    }
    await git('init', '--quiet');
    await writeFile(join(checkout, '.git/info/exclude'), 'node_modules\ndist\nsrc/db/generated\nrelease\n');
    for (const [name, value] of [
      ['name', 'Tester'],
      ['email', 'tester@example.com'],
    ] as const)
      await git('config', `user.${name}`, value);
    await git('add', '.');
    await git('commit', '--quiet', '--message', 'The release');
    release = await makeRelease(checkout);
  });
  afterAll(() => rm(dir, { recursive: true, force: true }));

  test.runIf(isNightly)('is that of a commit, which has its tag, and never of two', async () => {
    expect(await git('rev-parse', `v${VERSION}^{commit}`)).toBe(await git('rev-parse', 'HEAD'));
    const refusal = () =>
      npm(checkout, ['run', '-s', 'release']).then(
        () => '',
        ({ stderr }) => stderr,
      );
    await writeFile(join(checkout, 'README.md'), 'changed');
    expect(await refusal()).toBe('A release is of a commit. These files differ from it:\nM README.md\n');
    await git('commit', '--quiet', '--all', '--message', 'Another');
    expect(await refusal()).toBe(`v${VERSION} is the tag of another commit. Raise the version in package.json.\n`);
    await git('checkout', '--quiet', `v${VERSION}`);
  });

  test('contains the build, the migrations, the documentation with its files, the schema and the dependency lock, and nothing else', async () => {
    const kindOf = (path: string) =>
      path.startsWith('dist/dashboard/pages/')
        ? 'dist/dashboard/pages'
        : path.replace(/^dist\/.*\.js$/, 'dist/**/*.js').replace(/^dist\/client\/.*\.d\.ts$/, 'dist/client/**/*.d.ts');
    const packed = new Set(release.files.map(({ path }) => kindOf(path)));
    const filesOf = async (folder: string) =>
      (await readdir(join(ROOT, folder), { recursive: true, withFileTypes: true }))
        .filter((entry) => entry.isFile())
        .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)));
    const others =
      `CHANGELOG.md README.md dist/**/*.js dist/client/**/*.d.ts dist/client/package.json dist/build.json dist/dashboard/pages dist/db/empty-database.tgz
      dist/graphql/explorer.html.gz dist/guides/guides.json.gz npm-shrinkwrap.json package.json
      schema.graphql subgraph.graphql`.split(/\s+/);
    const expected = [...others, ...(await filesOf('prisma/migrations')), ...(await filesOf('docs'))];
    expect([...packed].sort()).toEqual(expected.sort());
    const size = release.files.reduce((sum, file) => sum + file.size, 0);
    expect(size).toBeLessThan(10_500_000);
  });

  test('has every file of which the operating guide says where to copy it', async () => {
    const guide = await readFile(join(ROOT, 'docs/operating.md'), 'utf8');
    const named = [...guide.matchAll(/\]\(((?:deploy|disaster|failover|pooler|split|upgrade)\/[^)#]+)\)/g)].map(
      ([, path]) => `docs/${path}`,
    );
    expect(named).toEqual(expect.arrayContaining(['docs/failover/patroni.yml', 'docs/upgrade/postgresql.sh']));
    const packed = release.files.map(({ path }) => path);
    expect(named.filter((path) => !packed.includes(path))).toEqual([]);
  });

  test.runIf(isNightly)('comes with an SBOM of exactly what production installs, and the sums of both', async () => {
    const text = await readFile(release.bill, 'utf8');
    const { metadata, components }: Json = JSON.parse(text);
    expect(metadata.component).toMatchObject({ name: 'userdir', version: VERSION, type: 'application' });
    const lock = await lockedForProduction();
    const named = (components as { name: string; version: string }[]).map(({ name, version }) => `${name}@${version}`);
    expect([...new Set(named)].sort()).toEqual(
      [...new Set(lock.map(({ name, version }) => `${name}@${version}`))].sort(),
    );
    expect(text).not.toContain(dir);
    const sums = await readFile(join(checkout, 'release/SHA256SUMS'), 'utf8');
    const sumOf = async (file: string) =>
      `${createHash('sha256')
        .update(await readFile(file))
        .digest('hex')}  ${basename(file)}\n`;
    expect(sums).toBe((await sumOf(release.archive)) + (await sumOf(release.bill)));
  });

  test.runIf(isNightly)('adds only the build to the checkout', async () => {
    const left = await readdir(join(dir, 'checkout'));
    expect(left.filter((name) => !CHECKOUT.includes(name))).toEqual(['.git', 'dist', 'node_modules', 'release']);
  });

  describe('a build', () => {
    const checkout = () => join(dir, 'checkout');
    const settings = () => ({ DATA_DIR: join(dir, 'data-of-build'), PORT: '0' });
    /** The command without the build before it. */
    const userdir = (...args: string[]) =>
      outcomeOf(spawnUserdir(settings(), args, [process.execPath, join(checkout(), 'dist/cli.js')]));
    const SHOWN = /^\d+\.\d+\.\d+$/m;
    /** Builds, where no build has ended. */
    const runVersion = () => npm(checkout(), ['run', '-s', 'userdir', '--', '--version']);
    /** Builds, where anything has changed since. */
    const start = () => npm(checkout(), ['-s', 'start', '--', '--help']);
    async function findingOfBuild(): Promise<Json> {
      const { findings } = JSON.parse((await userdir('doctor', '--json')).stdout);
      return findings.find(({ id }: Json) => id === 'build');
    }
    /** Spoils a file for `build`, which must fail. */
    async function failIn(file: string, build: () => Promise<unknown>): Promise<void> {
      const path = join(checkout(), file);
      const text = await readFile(path, 'utf8');
      await writeFile(path, `${text}\nexport const wrong: string = 1 as;\n`);
      await expect(build()).rejects.toMatchObject({ stdout: expect.not.stringMatching(SHOWN) });
      await writeFile(path, text);
      expect(await findingOfBuild()).toMatchObject({ status: 'failed', found: 'the build has not ended' });
    }

    test.runIf(isNightly)('that fails is not one, for any command, and the next one is', async () => {
      const before = await readFile(join(checkout(), 'dist/errors.js'));
      await failIn('src/errors.ts', start);
      expect(await readFile(join(checkout(), 'dist/errors.js'))).toEqual(before);
      const { code, stdout, stderr } = await userdir('serve');
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      expect(stderr).toMatch(/^userdir: the build has not ended\. Run .*npm run build.*\n$/);
      expect((await runVersion()).stdout).toMatch(SHOWN);
      expect(await findingOfBuild()).toMatchObject({ status: 'passed' });
      expect((await start()).stderr).toBe('Built already, starting.\n');
    });

    test.each([
      'dist/db/empty-database.tgz',
      'prisma/migrations/20261128000000_first_schema/migration.sql',
      ...(isNightly ? ['dist/app/app.js', 'dist/dashboard/pages/index.html', 'dist/graphql/explorer.html.gz'] : []),
    ])('is incomplete without %s, and doctor says so', async (file) => {
      const path = join(checkout(), file);
      await rename(path, `${path}.away`);
      const finding = await findingOfBuild().finally(() => rename(`${path}.away`, path));
      expect(finding).toMatchObject({ status: 'failed', found: `the build lacks ${file}` });
    });

    test('is incomplete without a file that doctor itself needs', async () => {
      const generated = join(checkout(), 'dist/db/generated');
      await rename(generated, `${generated}.away`);
      const outcome = await userdir('doctor').finally(() => rename(`${generated}.away`, generated));
      expect(outcome).toMatchObject({
        code: 1,
        stdout: '',
        stderr: expect.stringMatching(
          /^userdir: the build lacks dist\/db\/generated\/.*, and \d+ more files\. Run .*\n$/,
        ),
      });
    });
  });

  describe('installed in an empty folder', () => {
    let folder: string;
    let server: RunningServer;
    let userdir: Command;
    const settings = () => ({ DATA_DIR: join(dir, 'data') });

    beforeAll(async () => {
      folder = join(dir, 'elsewhere');
      await mkdir(folder);
      await npm(folder, ['install', '--omit=dev', ...NPM_OPTIONS, release.archive]);
      userdir = [join(folder, 'node_modules/.bin/userdir')];
      server = await startServer(settings(), userdir);
    });
    afterAll(() => server.stop());

    test('installs few packages', async () => {
      const { stdout } = await npm(folder, ['ls', '--all', '--omit=dev', '--parseable']);
      expect(stdout.trim().split('\n').length).toBeLessThan(246);
    });

    test('has a client, its types, the schema and the documentation', async () => {
      const program = `import { createClient } from 'userdir/client';
        const client: { users: object } = createClient({ url: 'http://127.0.0.1:9', appId: 'a', appSecret: 's' });
        console.log(Object.keys(client).join(), import.meta.resolve('userdir/schema.graphql').slice(0, 5));`;
      await writeFile(join(folder, 'try.mts'), program);
      const options = ['--strict', '--module', 'nodenext', '--target', 'es2023', '--lib', 'es2023,dom', '--types', ''];
      const compile = run(join(ROOT, 'node_modules/.bin/tsc'), [...options, '--ignoreConfig', 'try.mts'], {
        cwd: folder,
      });
      await compile.catch(({ stdout }) => expect.unreachable(stdout));
      const { stdout } = await run(process.execPath, ['try.mjs'], { cwd: folder });
      expect(stdout).toBe('caller,logins,users,identities,wallets,bans,changes,webhooks file:\n');
    });

    test('prints its version with npx', async () => {
      const { stdout } = await run('npx', ['userdir', '--version'], { cwd: folder });
      expect(stdout).toBe(`${VERSION}\n`);
    });

    test('serves both interfaces and their pages', () => requireAnswers(server));

    test('lists its projects beside the server', async () => {
      const { stdout } = await run(userdir[0], ['project', 'list', '--json'], { env: env(settings()) });
      expect(JSON.parse(stdout)).toMatchObject([{ app_id: server.demo?.app_id, total_user: 200 }]);
    });

    test('exits with 0 on SIGTERM', async () => {
      expect(await server.stop()).toMatchObject({ code: 0, signal: null });
    });
  });

  function instructions(name: string): string[] {
    return dockerfile.filter((line) => line.startsWith(`${name} `)).map((line) => line.slice(name.length + 1));
  }

  describe('the Dockerfile', () => {
    test('declares no volume, which would leave an empty one behind with PostgreSQL', () => {
      expect(instructions('VOLUME')).toEqual([]);
    });

    test('copies only files that exist', async () => {
      const copied = instructions('COPY').filter((text) => !text.startsWith('--from'));
      const sources = copied.flatMap((text) => text.split(' ').slice(0, -1));
      expect(sources).toContain('package-lock.json');
      await Promise.all(sources.map((source) => access(join(ROOT, source))));
    });
  });

  describe.runIf(isNightly)('built by the steps of the Dockerfile', () => {
    let app: string;
    /** Stands for the folder of the image that is on its PATH. */
    let bin: string;
    let installedMegabytes: number;
    let database: TestDatabase;
    let server: RunningServer | undefined;

    beforeAll(async () => {
      database = await copyTemplate();
      app = join(dir, 'app');
      bin = join(dir, 'bin');
      await mkdir(app);
      await run('tar', ['-xzf', release.archive, '-C', app, '--strip-components=1']);
      const [install = '', prune = ''] = instructions('RUN').slice(2, 4);
      expect(install).toBe('npm ci --omit=dev');
      await run('sh', ['-c', `${install} ${NPM_OPTIONS.join(' ')}`], { cwd: app, env: env({}) });
      installedMegabytes = Number.parseInt((await run('du', ['-sm', join(app, 'node_modules')])).stdout, 10);
      const link = (instructions('RUN')[5] ?? '').replaceAll('/app', app).replaceAll('/usr/local/bin', bin);
      expect(link).toContain('ln -s');
      await mkdir(bin);
      await run('sh', ['-c', `${prune} && ${link}`], { cwd: app, env: env({}) });
    });
    afterAll(async () => {
      await server?.stop();
      await database.drop();
    });

    test('has exactly the dependencies and versions of the lock, in at most 220 MB before anything is deleted', async () => {
      const installed = await lockedPackages(join(app, 'node_modules/.package-lock.json'));
      const expected = await lockedForProduction();
      expect(installed.map(({ path, version }) => `${path} ${version}`)).toEqual(
        expected.map(({ path, version }) => `${path} ${version}`),
      );
      // npm 10 installs what the lock does not mark as development.
      expect(await lockedPackages(join(app, 'npm-shrinkwrap.json'), ({ dev }) => !dev)).toEqual(expected);
      expect(installedMegabytes).toBeGreaterThan(100);
      expect(installedMegabytes).toBeLessThanOrEqual(220);
    });

    test('serves, is healthy while it serves, and exits with 0 on SIGTERM', async () => {
      expect(instructions('ENTRYPOINT')).toEqual(['["userdir"]']);
      expect(instructions('CMD')).toEqual(['["serve"]']);
      server = await startServer(database.env, [join(bin, 'userdir')]);
      await requireAnswers(server);
      const [check, ...args] = JSON.parse((instructions('HEALTHCHECK')[0] ?? '').replace(/^.*?CMD /, ''));
      const { port } = new URL(server.url);
      const health = () => run(check, args, { env: env({ PORT: port }) });
      await health();
      expect(await server.stop()).toMatchObject({ code: 0, signal: null });
      await expect(health()).rejects.toMatchObject({ code: 1 });
    });
  });
});

test.runIf(isNightly && inject('engine') === 'embedded')(
  'a SIGTERM to npm reaches the server that it runs',
  async () => {
    const database = await copyTemplate();
    const command = ['npm', 'run', '-s', '--prefix', ROOT, 'userdir', '--'] as const;
    const server = await startServer({ ...database.env, DEMO: 'off' }, command);
    const { code, signal, stderr } = await server.stop();
    expect({ code, signal }).toEqual({ code: 0, signal: null });
    expect(stderr).toContain('Stopped.');
    await database.drop();
  },
);

async function makeRelease(checkout: string): Promise<Release> {
  await npm(checkout, ['run', '-s', 'release']);
  return releaseIn(join(checkout, 'release'));
}

/** Packs the build that the tests run, as `npm pack` does after a build of its own. */
async function packBuild(checkout: string): Promise<Release> {
  const to = join(checkout, 'release');
  await mkdir(to);
  await copyBuild(checkout);
  await run(process.execPath, ['src/config/shrinkwrap.js'], { cwd: checkout });
  await npm(checkout, ['pack', '--ignore-scripts', '--pack-destination', to]);
  return releaseIn(to);
}

async function releaseIn(to: string): Promise<Release> {
  const archive = join(to, `userdir-${VERSION}.tgz`);
  const files: { path: string; size: number }[] = [];
  await list({
    file: archive,
    onReadEntry: ({ path, size }) => void files.push({ path: path.replace(/^package\//, ''), size }),
  });
  return { archive, bill: join(to, `userdir-${VERSION}.cdx.json`), files };
}

interface Locked {
  readonly path: string;
  readonly name: string;
  readonly version: string;
}

async function lockedPackages(file: string, isMeant = (_flags: Json) => true): Promise<Locked[]> {
  const lock = JSON.parse(await readFile(file, 'utf8'));
  return Object.entries<Json>(lock.packages)
    .filter(([path, flags]) => path.startsWith('node_modules/') && !flags.link && isMeant(flags))
    .map(([path, { version }]) => ({ path, name: path.slice(path.lastIndexOf('node_modules/') + 13), version }))
    .sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** What is locked for production. Of TypeScript, the packages for all kinds of machines are marked as optional alone. */
function lockedForProduction(): Promise<Locked[]> {
  return lockedPackages(
    join(ROOT, 'package-lock.json'),
    ({ dev, devOptional, optional, os }) => !(dev || devOptional || (optional && os)),
  );
}

async function requireAnswers({ url, demo }: RunningServer): Promise<void> {
  if (demo === null) throw new Error('There is no demo project.');
  expect(await call(url, demo, '/server/users?limit=1')).toMatchObject({
    status: 200,
    body: { result: { total_user: 200 } },
  });
  const body = JSON.stringify({ query: '{ userCount }' });
  expect((await call(url, demo, '/graphql', { method: 'POST', body })).body).toEqual({ data: { userCount: 200 } });
  for (const path of ['/', '/graphql', '/docs', '/docs/errors', '/docs/reference', '/readyz']) {
    const answer = await fetch(url + path, { headers: { accept: 'text/html' } });
    // A server waits for a client that has not read its answer.
    await answer.text();
    expect([path, answer.status]).toEqual([path, 200]);
  }
}

function npm(cwd: string, args: string[]) {
  return run('npm', args, { cwd, env: env({}), maxBuffer: 2 ** 24 });
}

/** An environment without settings of the machine and without the npm variables of the test run. */
function env(settings: Record<string, string>): Record<string, string> {
  return { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '', ...settings };
}
