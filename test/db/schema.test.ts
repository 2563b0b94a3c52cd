import type { PoolClient } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type OpenDatabase, openTestDatabase } from '../support/database.js';
import {
  compareFacts,
  type Disagreement,
  type Facts,
  readDatabaseFacts,
  readSchemaFacts,
} from '../support/schema-facts.js';

/** What Prisma's schema language can express. Check constraints, triggers, functions, collations and such are in the migrations alone. */
const OF_PRISMA = /^(table|relation|column|default|primary key|unique index|index|foreign key|sequence|enum) /;

/** Prisma's history table, which is not in the Prisma schema; test/db/migrate.slow.test.ts checks it. */
const isOfHistory = (fact: string) => /^\w+( \w+)* _prisma_migrations(\.|$|_pkey)/.test(fact);

let db: OpenDatabase;
let schema: Facts;
beforeAll(async () => {
  [db, schema] = await Promise.all([openTestDatabase(), readSchemaFacts()]);
});
afterAll(() => db.drop());

/** The differences between the schema and the database after `change`, which is rolled back. */
async function disagreementAfter(change: string): Promise<Disagreement> {
  const client = await db.pool.connect();
  try {
    await client.query('BEGIN');
    await client.query(change);
    return await disagreement(client);
  } finally {
    await client.query('ROLLBACK');
    client.release();
  }
}

async function disagreement(client: PoolClient): Promise<Disagreement> {
  const actual = [...(await readDatabaseFacts(client))].filter((fact) => OF_PRISMA.test(fact) && !isOfHistory(fact));
  return compareFacts(schema, new Set(actual));
}

test('the Prisma schema and the migrated database agree on everything', async () => {
  expect(await disagreementAfter('SELECT 1')).toEqual({ missing: [], extra: [] });
});

/** Changes that the comparison must report: they prove that it can fail. */
const CHANGES: readonly [name: string, change: string, missing: string[], extra: string[]][] = [
  [
    'the predicate of an index',
    'DROP INDEX users_identity_key; CREATE UNIQUE INDEX users_identity_key ON users (project_id, auth_method, auth_value_key)',
    ['unique index users_identity_key of users (project_id, auth_method, auth_value_key) where deleted_at IS NULL'],
    ['unique index users_identity_key of users (project_id, auth_method, auth_value_key)'],
  ],
  [
    'the type of a column',
    'ALTER TABLE app_secrets ALTER created_at TYPE timestamptz(6)',
    ['column app_secrets.created_at: timestamp(3) with time zone not null'],
    ['column app_secrets.created_at: timestamp(6) with time zone not null'],
  ],
  [
    'what a foreign key does on deletion',
    'ALTER TABLE accounts DROP CONSTRAINT accounts_user_fkey, ADD CONSTRAINT accounts_user_fkey FOREIGN KEY (project_id, user_id) REFERENCES users (project_id, id) ON DELETE RESTRICT ON UPDATE CASCADE',
    [
      'foreign key accounts_user_fkey of accounts (project_id, user_id) to users (project_id, id) on delete cascade on update cascade',
    ],
    [
      'foreign key accounts_user_fkey of accounts (project_id, user_id) to users (project_id, id) on delete restrict on update cascade',
    ],
  ],
];

describe('the comparison reports', () => {
  test.each(CHANGES)('%s', async (_name, change, missing, extra) => {
    expect(await disagreementAfter(change)).toEqual({ missing, extra });
  });
});
