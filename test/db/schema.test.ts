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

/** What the database has but Prisma's schema language cannot express, each with its reason. */
const BEYOND_PRISMA: readonly string[] = [
  // Prisma knows that the database computes the column, but not how.
  "generated users.login_method as CASE auth_method WHEN 'email'::text THEN 'email'::login_method WHEN 'passkey'::text THEN 'passkey'::login_method WHEN 'wallet'::text THEN 'wallet'::login_method ELSE 'socials'::login_method END stored",
  // Prisma has no check constraints.
  'constraint app_secrets_secret_hash_is_sha256 of app_secrets: CHECK ((octet_length(secret_hash) = 32))',
  "constraint app_secrets_label_is_one_line of app_secrets: CHECK ((((char_length(label) >= 1) AND (char_length(label) <= 64)) AND (label !~ '[[:cntrl:]]'::text)))",
  "constraint app_secrets_label_is_not_an_operator of app_secrets: CHECK (((label <> 'operator'::text) AND (label !~~ 'operator:%'::text)))",
  "constraint operators_name_is_one_word of operators: CHECK ((name ~ '^[a-z0-9][a-z0-9._@+-]{0,63}$'::text))",
  'constraint operator_sessions_token_hash_is_sha256 of operator_sessions: CHECK ((octet_length(token_hash) = 32))',
  "constraint operator_passkeys_name_is_one_line of operator_passkeys: CHECK ((((char_length(name) >= 1) AND (char_length(name) <= 64)) AND (name !~ '[[:cntrl:]]'::text)))",
  'constraint operator_passkeys_credential_is_short of operator_passkeys: CHECK (((octet_length(credential_id) >= 1) AND (octet_length(credential_id) <= 1023)))',
  'constraint challenge_keys_is_one of challenge_keys: CHECK ((id = 1))',
  'constraint challenge_keys_is_long of challenge_keys: CHECK ((octet_length(key) = 32))',
  'constraint passkey_challenges_hash_is_sha256 of passkey_challenges: CHECK ((octet_length(challenge_hash) = 32))',
  'constraint login_links_token_hash_is_sha256 of login_links: CHECK ((octet_length(token_hash) = 32))',
  'constraint app_secrets_is_good_for_something of app_secrets: CHECK (((cardinality(scopes) > 0) AND (array_position(scopes, NULL::secret_scope) IS NULL)))',
  'constraint users_login_count_not_negative of users: CHECK ((login_count >= 0))',
  "constraint users_created_at_in_range of users: CHECK (((created_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (created_at < '10000-01-01 00:00:00+00'::timestamp with time zone)))",
  "constraint accounts_public_key_is_one_word of accounts: CHECK ((strpos(public_key, ' '::text) = 0))",
  'constraint bans_reason_is_short of bans: CHECK ((char_length(reason) <= 500))',
  'constraint idempotency_keys_key_is_short of idempotency_keys: CHECK (((char_length(key) >= 1) AND (char_length(key) <= 255)))',
  // Prisma has no collations. With C, columns compared only for equality have the same index on every server.
  'collation projects.app_id: C',
  'collation users.auth_method: C',
  'collation users.auth_value_key: C',
  'collation users.login_email: C',
  'collation users.external_id: C',
  'collation accounts.address_key: C',
  'collation bans.auth_method: C',
  'collation bans.auth_value_key: C',
  'collation idempotency_keys.key: C',
  'collation changes_feed.timeline: C',
  'collation changes_timelines.timeline: C',
  'collation webhook_attempts.message: C',
  'collation webhooks.timeline: C',
  'collation operators.name: C',
  'collation operator_passkeys.host: C',
  'collation operators.subject: C',
  // Prisma has no limits of sequences. An id must be exact in JSON (at most 2^53 - 1).
  'range of users_id_seq: 1 to 9007199254740991',
  'range of accounts_id_seq: 1 to 9007199254740991',
  'range of audit_log_id_seq: 1 to 9007199254740991',
  'range of operator_log_id_seq: 1 to 9007199254740991',
  'range of bans_id_seq: 1 to 9007199254740991',
  // The database maintains the tallies: triggers append deltas, functions fold them.
  "constraint tally_deltas_change_is_one of tally_deltas: CHECK ((change = ANY (ARRAY['-1'::integer, 1])))",
  'trigger: CREATE TRIGGER users_tally_insert AFTER INSERT ON users REFERENCING NEW TABLE AS new_users FOR EACH STATEMENT EXECUTE FUNCTION record_inserted_users()',
  'trigger: CREATE TRIGGER users_tally_update AFTER UPDATE ON users REFERENCING OLD TABLE AS old_users NEW TABLE AS new_users FOR EACH STATEMENT EXECUTE FUNCTION record_updated_users()',
  'trigger: CREATE TRIGGER users_tally_delete AFTER DELETE ON users REFERENCING OLD TABLE AS old_users FOR EACH STATEMENT EXECUTE FUNCTION record_deleted_users()',
  'trigger: CREATE TRIGGER users_tally_truncate AFTER TRUNCATE ON users FOR EACH STATEMENT EXECUTE FUNCTION forget_tallies()',
  // The id of a project cannot change, and a user has at most 100 accounts.
  'trigger: CREATE TRIGGER projects_id_is_fixed BEFORE UPDATE OF id ON projects FOR EACH ROW WHEN (old.id IS DISTINCT FROM new.id) EXECUTE FUNCTION refuse_new_project_id()',
  'function keep_external_id(text,text)',
  'function refuse_new_project_id()',
  // A write looks for an earlier answer to its key, and stores its own unless another has done so at the same moment.
  'function earlier_answer(integer,text,bytea)',
  'function take_expired_key(boolean)',
  'function require_account_room(integer,bigint,text[])',
  // A project that goes takes its deltas, which have no foreign key.
  'trigger: CREATE TRIGGER projects_forget_deltas AFTER DELETE ON projects FOR EACH ROW EXECUTE FUNCTION forget_deltas()',
  'function forget_deltas()',
  // A rate limit of a project has the bounds of RATE_LIMIT.
  'constraint projects_requests_per_minute_in_range of projects: CHECK (((requests_per_minute >= 1) AND (requests_per_minute <= 100000000)))',
  // The database notifies processes when a secret ends, or when its project is disabled or limited, or has other documents.
  'trigger: CREATE TRIGGER projects_announce AFTER UPDATE OF disabled_at, requests_per_minute ON projects FOR EACH STATEMENT EXECUTE FUNCTION announce_secrets()',
  'trigger: CREATE TRIGGER app_secrets_announce AFTER DELETE OR UPDATE OF project_id, secret_hash, label, scopes, expires_at ON app_secrets FOR EACH STATEMENT EXECUTE FUNCTION announce_secrets()',
  'function announce_secrets()',
  'function record_inserted_users()',
  'function record_updated_users()',
  'function record_deleted_users()',
  'function forget_tallies()',
  'function fold_tallies(integer,integer)',
  'function cut_crowded_days(integer,date[])',
  'function cut_tally_slices(integer,timestamp with time zone,bigint,timestamp with time zone,bigint)',
  'function utc_day(timestamp with time zone)',
  'function utc_start(date)',
  // The database records changes: triggers append them, a publisher settles how far they may be read.
  'constraint database_identity_has_one_row of database_identity: CHECK ((id = 1))',
  'function recognise_database(text,text)',
  'function skip_ids(bigint)',
  'constraint changes_feed_has_one_row of changes_feed: CHECK ((id = 1))',
  'range of changes_id_seq: 1 to 9007199254740991',
  'trigger: CREATE TRIGGER users_changes_truncate AFTER TRUNCATE ON users FOR EACH STATEMENT EXECUTE FUNCTION forget_changes()',
  'trigger: CREATE TRIGGER accounts_changes_insert AFTER INSERT ON accounts REFERENCING NEW TABLE AS new_accounts FOR EACH STATEMENT EXECUTE FUNCTION record_added_accounts()',
  'trigger: CREATE TRIGGER accounts_changes_update AFTER UPDATE ON accounts REFERENCING OLD TABLE AS old_accounts NEW TABLE AS new_accounts FOR EACH STATEMENT EXECUTE FUNCTION record_changed_accounts()',
  'trigger: CREATE TRIGGER accounts_changes_delete AFTER DELETE ON accounts REFERENCING OLD TABLE AS old_accounts FOR EACH STATEMENT EXECUTE FUNCTION record_removed_accounts()',
  'trigger: CREATE TRIGGER bans_changes_insert AFTER INSERT ON bans REFERENCING NEW TABLE AS new_bans FOR EACH STATEMENT EXECUTE FUNCTION record_bans()',
  'trigger: CREATE TRIGGER bans_changes_update AFTER UPDATE ON bans REFERENCING OLD TABLE AS old_bans NEW TABLE AS new_bans FOR EACH STATEMENT EXECUTE FUNCTION record_bans()',
  'trigger: CREATE TRIGGER bans_changes_delete AFTER DELETE ON bans REFERENCING OLD TABLE AS old_bans FOR EACH STATEMENT EXECUTE FUNCTION record_bans()',
  'trigger: CREATE TRIGGER accounts_changes_truncate AFTER TRUNCATE ON accounts FOR EACH STATEMENT EXECUTE FUNCTION forget_changes()',
  'trigger: CREATE TRIGGER bans_changes_truncate AFTER TRUNCATE ON bans FOR EACH STATEMENT EXECUTE FUNCTION forget_changes()',
  'trigger: CREATE TRIGGER projects_changes_delete AFTER DELETE ON projects REFERENCING OLD TABLE AS old_projects FOR EACH STATEMENT EXECUTE FUNCTION delete_project_changes()',
  'function changes_incarnation()',
  'function publish_changes(bigint)',
  'function record_added_accounts()',
  'function record_changed_accounts()',
  'function record_removed_accounts()',
  'function record_bans()',
  'function record_ban(change_type,integer,text,text)',
  'function forget_changes()',
  'function delete_project_changes()',
  'options of changes_feed: fillfactor=10',
  // An endpoint has a reason only while it is stopped, and its secrets have a length that Standard Webhooks allows.
  "constraint webhooks_reason_unless_enabled of webhooks: CHECK (((status = 'enabled'::webhook_status) = (reason IS NULL)))",
  'constraint webhook_secrets_secret_has_32_bytes of webhook_secrets: CHECK ((octet_length(secret) = 32))',
  'options of webhooks: fillfactor=50',
  'options of webhook_attempts: fillfactor=50',
  'options of webhook_hours: fillfactor=50',
  'options of request_hours: fillfactor=50',
  // Rows of these tables are updated often, so their pages keep free space.
  'options of tallies: fillfactor=60',
  'options of tally_slices: fillfactor=60',
  'options of users: fillfactor=90',
  'function write_record_updated_users()',
  // Releases look here whether they may serve this schema.
  'function oldest_release()',
];

/** Prisma's history table, which is not in the Prisma schema; test/db/migrate.test.ts checks it. */
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
  const expected = new Set([...schema, ...BEYOND_PRISMA]);
  const actual = [...(await readDatabaseFacts(client))].filter((fact) => !isOfHistory(fact));
  return compareFacts(expected, new Set(actual));
}

test('the Prisma schema and the migrated database agree on everything', async () => {
  expect(await disagreementAfter('SELECT 1')).toEqual({ missing: [], extra: [] });
});

test('the whole Prisma schema is read', () => {
  for (const fact of [
    'table accounts',
    'table app_secrets',
    'table bans',
    'table projects',
    'table users',
    'column users.deleted_at: timestamp(3) with time zone null',
    'column accounts.network: network not null',
    'default users.login_method: by the database',
    'primary key users_pkey of users (project_id, id)',
    'unique index users_identity_key of users (project_id, auth_method, auth_value_key) where deleted_at IS NULL',
    'index users_newest_idx of users (project_id, created_at desc, id desc) where deleted_at IS NULL',
    'foreign key accounts_user_fkey of accounts (project_id, user_id) to users (project_id, id) on delete cascade on update cascade',
    'sequence users_id_seq: bigint of users.id',
    'enum wallet_type: custodial, external',
  ]) {
    expect(schema).toContain(fact);
  }
});

/** Changes that the comparison must report: they prove that it can fail. */
const CHANGES: readonly [name: string, change: string, missing: string[], extra: string[]][] = [
  [
    'an index that was dropped',
    'DROP INDEX users_login_email_idx',
    ['index users_login_email_idx of users (project_id, login_email) where deleted_at IS NULL'],
    [],
  ],
  [
    'an index that was added',
    'CREATE INDEX more_idx ON users USING hash (wallet)',
    [],
    ['index more_idx of users (wallet) using hash'],
  ],
  [
    'the order of the columns of an index',
    'DROP INDEX accounts_address_idx; CREATE INDEX accounts_address_idx ON accounts (project_id, user_id, address_key)',
    ['index accounts_address_idx of accounts (project_id, address_key, id)'],
    ['index accounts_address_idx of accounts (project_id, user_id, address_key)'],
  ],
  [
    'the direction of a column of an index',
    'DROP INDEX users_newest_idx; CREATE INDEX users_newest_idx ON users (project_id, created_at DESC, id) WHERE deleted_at IS NULL',
    ['index users_newest_idx of users (project_id, created_at desc, id desc) where deleted_at IS NULL'],
    ['index users_newest_idx of users (project_id, created_at desc, id) where deleted_at IS NULL'],
  ],
  [
    'where an index puts nulls',
    'DROP INDEX users_deleted_idx; CREATE INDEX users_deleted_idx ON users (project_id, deleted_at NULLS FIRST) WHERE deleted_at IS NOT NULL',
    ['index users_deleted_idx of users (project_id, deleted_at) where deleted_at IS NOT NULL'],
    ['index users_deleted_idx of users (project_id, deleted_at nulls first) where deleted_at IS NOT NULL'],
  ],
  [
    'the predicate of an index',
    'DROP INDEX users_identity_key; CREATE UNIQUE INDEX users_identity_key ON users (project_id, auth_method, auth_value_key)',
    ['unique index users_identity_key of users (project_id, auth_method, auth_value_key) where deleted_at IS NULL'],
    ['unique index users_identity_key of users (project_id, auth_method, auth_value_key)'],
  ],
  [
    'an index that is no longer unique',
    'DROP INDEX accounts_user_address_key; CREATE INDEX accounts_user_address_key ON accounts (project_id, user_id, address_key)',
    ['unique index accounts_user_address_key of accounts (project_id, user_id, address_key)'],
    ['index accounts_user_address_key of accounts (project_id, user_id, address_key)'],
  ],
  [
    'a primary key over other columns',
    'ALTER TABLE bans DROP CONSTRAINT bans_pkey, ADD CONSTRAINT bans_pkey PRIMARY KEY (auth_method, project_id, auth_value_key)',
    ['primary key bans_pkey of bans (project_id, auth_method, auth_value_key)'],
    ['primary key bans_pkey of bans (auth_method, project_id, auth_value_key)'],
  ],
  [
    'a column that may be null',
    'ALTER TABLE users ALTER auth_value DROP NOT NULL',
    ['column users.auth_value: text not null'],
    ['column users.auth_value: text null'],
  ],
  [
    'a column that may not be null',
    'ALTER TABLE users ALTER wallet SET NOT NULL',
    ['column users.wallet: text null'],
    ['column users.wallet: text not null'],
  ],
  [
    'the type of a column',
    'ALTER TABLE app_secrets ALTER created_at TYPE timestamptz(6)',
    ['column app_secrets.created_at: timestamp(3) with time zone not null'],
    ['column app_secrets.created_at: timestamp(6) with time zone not null'],
  ],
  ['a column that is gone', 'ALTER TABLE projects DROP name', ['column projects.name: text not null'], []],
  ['a column that was added', 'ALTER TABLE projects ADD note text', [], ['column projects.note: text null']],
  ['a default that is gone', 'ALTER TABLE users ALTER login_count DROP DEFAULT', ['default users.login_count: 0'], []],
  [
    'another default',
    'ALTER TABLE users ALTER login_count SET DEFAULT 1',
    ['default users.login_count: 0'],
    ['default users.login_count: 1'],
  ],
  [
    'a foreign key that is gone',
    'ALTER TABLE bans DROP CONSTRAINT bans_project_id_fkey',
    ['foreign key bans_project_id_fkey of bans (project_id) to projects (id) on delete cascade on update cascade'],
    [],
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
  [
    'a value that was added to an enum',
    "ALTER TYPE network ADD VALUE 'bitcoin' BEFORE 'ethereum'",
    ['enum network: stellar, ethereum'],
    ['enum network: stellar, bitcoin, ethereum'],
  ],
  [
    'a check that is gone, though Prisma has no word for it',
    'ALTER TABLE users DROP CONSTRAINT users_login_count_not_negative',
    ['constraint users_login_count_not_negative of users: CHECK ((login_count >= 0))'],
    [],
  ],
  [
    'another collation',
    'ALTER TABLE users ALTER login_email TYPE text COLLATE "default"',
    ['collation users.login_email: C'],
    [],
  ],
  [
    'the end of a sequence',
    'ALTER SEQUENCE users_id_seq NO MAXVALUE',
    ['range of users_id_seq: 1 to 9007199254740991'],
    [],
  ],
  ['a table that was added', 'CREATE TABLE more ()', [], ['table more']],
  ['a view', 'CREATE VIEW more AS SELECT id FROM users', [], ['relation of kind v more']],
  ['a function', "CREATE FUNCTION more(int) RETURNS int LANGUAGE sql AS 'SELECT 1'", [], ['function more(integer)']],
  [
    'a trigger',
    'CREATE TRIGGER more BEFORE UPDATE ON users FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()',
    [],
    [
      'trigger: CREATE TRIGGER more BEFORE UPDATE ON users FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()',
    ],
  ],
  ['how a table is stored', 'ALTER TABLE accounts SET (fillfactor = 50)', [], ['options of accounts: fillfactor=50']],
  ['a type', 'CREATE DOMAIN more AS text', [], ['type more']],
];

describe('the comparison reports', () => {
  test.each(CHANGES)('%s', async (_name, change, missing, extra) => {
    expect(await disagreementAfter(change)).toEqual({ missing, extra });
  });
});
