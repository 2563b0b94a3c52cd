import { defineConfig } from 'vitest/config';

/** Every test runs on the embedded database and, where TEST_DATABASE_URL names a server, on that PostgreSQL too. */
const engines = process.env['TEST_DATABASE_URL'] ? (['embedded', 'postgres'] as const) : (['embedded'] as const);

export default defineConfig({
  test: {
    projects: engines.map((engine) => ({
      test: {
        name: engine,
        include: ['test/**/*.test.ts'],
        // What needs no database is tested once.
        exclude: ['**/node_modules/**', 'test/bench/**', ...(engine === 'postgres' ? ['test/unit/**'] : [])],
        globalSetup: ['test/support/engines.ts'],
        provide: { engine },
        pool: 'forks',
        // The build runs as Node runs it; Vite would resolve `graphql` to a second copy, whose errors are of another class.
        server: { deps: { external: [/\/dist\//] } },
        maxWorkers: 3,
        testTimeout: 30_000,
        hookTimeout: 60_000,
      },
    })),
  },
});
