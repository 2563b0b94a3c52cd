/** Patterns of files of tests that do not run on each engine, for vitest.config.ts. `test/unit/source.test.ts` holds that no test is left out by them. */

/** They have nothing to do with an engine, or only with the embedded one. */
export const NOT_ON_POSTGRES: readonly string[] = [
  'test/unit/**',
  'test/process/closing.test.ts',
  'test/api/{answers-to-mistakes,arrived-bodies,bad-input,compression,demo,graphql-arguments,graphql-cost,graphql-http}.test.ts',
  'test/api/{graphql-refusals,malformed-http,pages,refused-credentials,several-faults}.test.ts',
  'test/contract/{compatibility,decisions-http,graphql-over-http,limits,openapi,schema,secret-scopes}.test.ts',
  'test/faults/{data-dir-lock,embedded-thread}.test.ts',
  'test/package/{deploy,package}.test.ts',
];

/** They have only to do with PostgreSQL. */
export const NOT_ON_EMBEDDED: readonly string[] = [
  'test/faults/{database-faults,dump-restore,frozen-leader,locks,replicas,rolling-restart}.test.ts',
  'test/process/{direct-url,pooler}.test.ts',
];

/**
 * The same on both engines, which `npm run nightly` tries: commands, and the service as a program of an operating system, with its terminal, its
 * log and its shutdown. They run on PostgreSQL if it is there, where a process starts sooner.
 */
export const ON_ONE_ENGINE: readonly string[] = [
  'test/process/{audit,changes,commands,documents,exit-codes,hostile-shapes,hygiene,import-export,long-lists,migrate,moving}.test.ts',
  'test/process/{observability,operators,project-lifecycle,releases,secrets,shutdown,terminal,users,wallet-verify,webhooks}.test.ts',
  'test/faults/client.test.ts',
  'test/contract/authentication-time.test.ts',
  'test/package/proxies.test.ts',
  'test/upgrade/{unpublished,upgrade}.test.ts',
];
