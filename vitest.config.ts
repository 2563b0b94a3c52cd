import { configDefaults, defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';
import type { Engine } from './test/support/engines.js';
import { NOT_ON_EMBEDDED, NOT_ON_POSTGRES, ON_ONE_ENGINE } from './test/support/files-by-engine.js';
import { isNightly } from './test/support/nightly.js';
import { LongestFirst } from './test/support/sequencer.js';

/**
 * The tests by what they need. `npm test` runs `fast`, `npm run test:slow` `slow`; `npm run test:all` runs all of them, on the embedded database and, where
 * TEST_DATABASE_URL names a server, on that PostgreSQL too. `npm run nightly` adds what they leave out. `LongestFirst` says in which order their files
 * start.
 */
interface Kind {
  readonly include: string[];
  readonly exclude?: string[];
  /** What has nothing to do with the database is tested once. */
  readonly engines?: readonly Engine[];
  readonly test?: TestProjectInlineConfiguration['test'];
}

const EVERY_ENGINE: readonly Engine[] = process.env['TEST_DATABASE_URL'] ? ['embedded', 'postgres'] : ['embedded'];
/** PostgreSQL if it is there: it takes less of the machine. */
const ONE_ENGINE = EVERY_ENGINE.slice(-1);
const SLOW = { testTimeout: 600_000, hookTimeout: 600_000 };
/** What compares times is not run beside anything else. */
const COMPARES_TIMES = ['test/contract/authentication-time.test.ts'];

const SLOW_FILES = 'test/{api,contract,db,model}/**/*.slow.test.ts';

const kinds: Record<string, Kind> = {
  // What is packed and installed, and what the guides tell. An installation takes as long as the registry.
  package: { include: ['test/package/**/*.test.ts'], test: SLOW },
  // The command and the server as processes.
  process: { include: ['test/process/**/*.test.ts'], test: { isolate: false, ...SLOW } },
  // Processes that are killed, servers that go away, directories that two want.
  faults: { include: ['test/faults/**/*.test.ts'], test: SLOW },
  // Databases of earlier releases.
  upgrade: { include: ['test/upgrade/**/*.test.ts'], test: SLOW },
  // What they look at is the same on every engine.
  browser: { include: ['test/browser/**/*.test.ts'], engines: ONE_ENGINE, test: { isolate: false, ...SLOW } },
  clients: { include: ['test/clients/*.test.ts'], engines: ['embedded'], test: SLOW },
  // Long histories, storms and large tables, as `fast`: files that take more than some three seconds.
  slow: { include: [SLOW_FILES], test: { isolate: false } },
  // The service in the process of the test. The files of a worker run one after the other, on a database that they share.
  fast: {
    include: ['test/{unit,api,contract,db,model}/**/*.test.ts'],
    exclude: [SLOW_FILES, ...COMPARES_TIMES],
    test: { isolate: false },
  },
  // What happens when a PostgreSQL under Patroni fails. Stands aside where the programs are missing.
  drills: {
    include: ['test/drills/**/*.test.ts'],
    engines: ['embedded'],
    test: { ...SLOW, maxWorkers: 1 },
  },
  alone: { include: COMPARES_TIMES, test: { maxWorkers: 1 } },
};

/** So many files of tests at a time. A run beside another one has fewer. */
const workers = Number(process.env['WORKERS'] ?? 3);

/** The projects that .ci/run has run, or runs beside these. */
const without = process.env['WITHOUT']?.split(' ') ?? [];

const everyProject = Object.entries(kinds).flatMap(([name, { engines = EVERY_ENGINE, include, exclude = [], test }]) =>
  engines.map((engine) => ({
    name: engine === 'postgres' && engines.length > 1 ? `${name}-postgres` : name,
    include,
    exclude: [
      ...configDefaults.exclude,
      ...exclude,
      ...(engine === EVERY_ENGINE.at(-1) || isNightly ? [] : ON_ONE_ENGINE),
      ...(engine === 'postgres' ? NOT_ON_POSTGRES : NOT_ON_EMBEDDED),
    ],
    provide: { engine },
    ...test,
  })),
);

const projects = everyProject.filter(({ name }) => !without.includes(`${name}`));

export default defineConfig({
  test: {
    globalSetup: ['test/support/setup.ts'],
    sequence: { sequencer: LongestFirst },
    projects: projects.map((project, index) => ({
      test: {
        pool: 'forks',
        // The build runs as Node runs it; Vite would resolve `graphql` to a second copy, whose errors are of another class.
        server: { deps: { external: [/\/dist\//] } },
        maxWorkers: workers,
        testTimeout: 240_000,
        hookTimeout: 240_000,
        // A second is too little for a machine that runs other tests.
        expect: { poll: { timeout: 60_000 } },
        // What runs alone runs after all others.
        sequence: { groupOrder: project.maxWorkers === undefined ? 0 : index },
        ...project,
      },
    })),
  },
});
