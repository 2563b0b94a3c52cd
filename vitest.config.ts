import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';
import type { Engine } from './test/support/engines.js';

/**
 * The tests by what they need. `npm test` runs `fast`; `npm run test:all` runs all of them, on the embedded database and, where
 * TEST_DATABASE_URL names a server, on that PostgreSQL too. One kind runs after the other.
 */
interface Kind {
  readonly include: string[];
  /** What needs no database, or always the same, is tested once. */
  readonly engines?: readonly Engine[];
  readonly test?: TestProjectInlineConfiguration['test'];
}

const SLOW = { testTimeout: 120_000, hookTimeout: 120_000 };

const kinds: Record<string, Kind> = {
  // The service in the process of the test. The files of a worker run one after the other, on a database that they share.
  fast: { include: ['test/{api,contract,db}/**/*.test.ts'], test: { isolate: false } },
  unit: { include: ['test/unit/**/*.test.ts'], engines: ['embedded'], test: { isolate: false } },
  // The command and the server as processes.
  process: { include: ['test/process/**/*.test.ts'], test: SLOW },
  // What is packed and installed, and what the guides tell. An installation takes as long as the registry.
  package: { include: ['test/package/**/*.test.ts'], test: { testTimeout: 240_000, hookTimeout: 240_000 } },
  // Processes that are killed, servers that go away, directories that two want.
  faults: { include: ['test/faults/**/*.test.ts'], test: SLOW },
  browser: { include: ['test/browser/**/*.test.ts'], engines: ['embedded'] },
  clients: { include: ['test/clients/*.test.ts'], engines: ['embedded'], test: SLOW },
};

const engines: readonly Engine[] = process.env['TEST_DATABASE_URL'] ? ['embedded', 'postgres'] : ['embedded'];

export default defineConfig({
  test: {
    globalSetup: ['test/support/setup.ts'],
    projects: engines.flatMap((engine) =>
      Object.entries(kinds)
        .filter(([, kind]) => (kind.engines ?? engines).includes(engine))
        .map(([name, { include, test }]) => ({
          test: {
            name: engine === 'postgres' ? `${name}-postgres` : name,
            include,
            provide: { engine },
            pool: 'forks',
            // The build runs as Node runs it; Vite would resolve `graphql` to a second copy, whose errors are of another class.
            server: { deps: { external: [/\/dist\//] } },
            maxWorkers: 3,
            testTimeout: 30_000,
            hookTimeout: 60_000,
            ...test,
          },
        })),
    ),
  },
});
