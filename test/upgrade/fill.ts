import { KEPT_TEXTS, ofKeptLines } from '#dist/domain/kept-texts.js';
import { stellarAddress } from '../support/addresses.js';
import type { Json } from '../support/app.js';
import { type Credentials, call, recordLogin, startServer, userdirJson } from '../support/command.js';
import type { Resting } from './resting.js';

/** Columns that have a value only while something happens. */
const EMPTY_AT_REST = new Set(['_prisma_migrations.logs', '_prisma_migrations.rolled_back_at']);

/** A day that is crowded enough for slices. */
const USERS = Array.from({ length: 2_200 }, (_, index) => ({
  auth_method: ['email', 'google', 'passkey'][index % 3],
  auth_value: `user-${index}@example.com`,
  created_at: new Date(Date.UTC(2026, 0, 31, 0, 0, index * 10)).toISOString(),
}));

const LINES: readonly Json[] = [
  ...USERS,
  { auth_method: 'email', auth_value: 'verified@example.com', email_verified: true },
  { auth_method: 'wallet', auth_value: '0x52908400098527886E0F7030069857D2E4169EE7' },
  {
    auth_method: 'google',
    auth_value: 'Ærøskøbing-1',
    email: 'grace@example.com',
    email_verified: true,
    metadata: { plan: 'pro' },
    wallet: stellarAddress(1),
    ...ofKeptLines((field) => KEPT_TEXTS[field].examples[0]),
    created_at: '1999-12-31T23:59:59.999Z',
    last_login: '2026-02-01T00:00:00.001Z',
    login_count: 7,
    accounts: [{ network: 'stellar', public_key: stellarAddress(1) }],
    identities: [
      { auth_method: 'apple', auth_value: 'grace', email: 'grace@apple.example', email_verified: false },
      { auth_method: 'github', auth_value: 'grace', last_login: '2026-02-01T00:00:00.001Z' },
    ],
  },
  { ban: { auth_method: 'email', auth_value: 'eve@example.com' } },
  { ban: { auth_method: 'email', auth_value: 'mallory@example.com', reason: 'spam', expires_at: '2100-01-01' } },
  { ban: { auth_method: 'email', auth_value: 'user-9@example.com', of_user: true } },
];

/** What needs days, a browser, a receiver of webhooks or another database. */
const BY_HAND = `
  INSERT INTO operators (name, role, subject, last_seen_at) VALUES ('bob', 'support', 'https://id.example.com 1', '2026-01-01');
  INSERT INTO operator_projects (operator_id, project_id) SELECT o.id, p.id FROM operators o, projects p WHERE o.name = 'bob' AND p.name = 'One';
  INSERT INTO login_links (operator_id, token_hash, expires_at) SELECT id, sha256('link'), '2100-01-01' FROM operators WHERE name = 'bob';
  INSERT INTO operator_passkeys (operator_id, name, host, credential_id, public_key, counter, last_used_at)
    SELECT id, 'a key', 'localhost', 'id', 'key', 1, now() FROM operators WHERE name = 'bob';
  INSERT INTO operator_sessions (operator_id, token_hash, expires_at, user_agent, passkey_id)
    SELECT operator_id, sha256('session'), '2100-01-01', 'a browser', id FROM operator_passkeys;
  INSERT INTO challenge_keys (key) VALUES (sha256('key'));
  INSERT INTO passkey_challenges (challenge_hash, expires_at) VALUES (sha256('challenge'), '2100-01-01');
  INSERT INTO operator_log (actor, request_id, action, details) VALUES ('bob', 'a request', 'login', '{}');
  UPDATE app_secrets SET last_used_at = now(), expires_at = '2100-01-01';
  INSERT INTO webhooks (project_id, url, description, types, place, timeline, status, reason, failures, failing_since,
      leased_by, leased_until, last_delivered_at, resend_after)
    SELECT id, 'https://example.com', 'a webhook', '{user.created}', 7, 'f1', 'paused', 'It was gone.', 3, now(), 'a process', now(), now(), now()
    FROM projects WHERE name = 'One';
  INSERT INTO webhook_secrets (project_id, webhook_id, secret, expires_at) SELECT project_id, id, sha256('secret'), '2100-01-01' FROM webhooks;
  INSERT INTO webhook_attempts (project_id, webhook_id, ok, slot, number, at, message, type, status, ms, error, resent)
    SELECT project_id, id, false, 1, 1, now(), 'cursor', 'user.created', 500, 12, 'It failed.', false FROM webhooks;
  INSERT INTO webhook_hours (project_id, webhook_id, slot, hour, accepted, failed) SELECT project_id, id, 1, now(), 1, 1 FROM webhooks;
  WITH old AS (DELETE FROM changes WHERE id < 2000 RETURNING project_id, id)
    INSERT INTO changes_pruned (project_id, through) SELECT project_id, max(id) FROM old GROUP BY project_id;
  INSERT INTO changes_timelines (timeline, published) VALUES ('f0', 1);
  UPDATE database_identity SET restored_at = '2026-01-01', line = coalesce(line, '00000001');
  -- Its delta is not folded.
  INSERT INTO users (project_id, auth_method, auth_value, auth_value_key) SELECT id, 'passkey', 'last', 'last' FROM projects WHERE name = 'One'`;

/** Makes rows in every table, with a value in every column, by commands, by requests, and by hand. */
export async function fill(database: Resting): Promise<void> {
  const settings = { ...database.env, DEMO: 'off', LOG_LEVEL: 'fatal' };
  const run = (args: string[], input?: string) => userdirJson(settings, args, input);
  const one: Credentials = await run(['project', 'create', '--name', 'One']);
  const two: Credentials = await run(['project', 'create', '--name', 'Two']);
  await run(['project', 'limit', two.app_id, '--rate', '6000']);
  await run(['project', 'disable', two.app_id]);
  const report = await run(
    ['user', 'import', '--project', one.app_id],
    LINES.map((line) => `${JSON.stringify(line)}\n`).join(''),
  );
  if (report.errors.length > 0) throw new Error(JSON.stringify(report.errors));
  const server = await startServer(settings);
  await act(server.url, one);
  await server.stop();
  await database.query(BY_HAND);
  await requireEveryColumn(database);
}

/** Logins, a merge and removals; and a read of a total, which folds the tallies. */
async function act(url: string, project: Credentials): Promise<void> {
  const ask = async (query: string): Promise<Json> => {
    const { body } = await call(url, project, '/graphql', { method: 'POST', body: JSON.stringify({ query }) });
    if (body.errors !== undefined) throw new Error(JSON.stringify(body.errors));
    return body.data;
  };
  for (const value of ['a@example.com', 'b@example.com'])
    await recordLogin(url, project, { authMethod: 'email', authValue: value }, value);
  // A login by a linked identity says when the primary one was last used.
  await recordLogin(url, project, { authMethod: 'apple', authValue: 'grace' });
  const { a, b, grace } = await ask(`{
    a: userByIdentity(authMethod: "email", authValue: "a@example.com") { id }
    b: userByIdentity(authMethod: "email", authValue: "b@example.com") { id }
    grace: userByIdentity(authMethod: "github", authValue: "grace") { id }
  }`);
  await ask(`mutation {
    linkIdentity(userId: ${grace.id}, input: { authMethod: "github", authValue: "grace", primary: true }) { user { id } }
    mergeUsers(from: ${a.id}, into: ${b.id}) { user { id } }
    updateUser(id: ${b.id}, input: { email: "said@example.com" }) { user { id } }
    deleteUser(id: 3) { id }
  }`);
  await call(url, project, '/server/users/count');
}

async function requireEveryColumn({ query }: Resting): Promise<void> {
  const columns = await query(`
    SELECT c.relname AS table, a.attname AS column FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped`);
  const tests = columns.map(
    ({ table, column }) =>
      `SELECT '${table}.${column}' AS name WHERE NOT EXISTS (SELECT FROM "${table}" WHERE "${column}" IS NOT NULL)`,
  );
  const empty = (await query(tests.join(' UNION ALL '))).filter(({ name }) => !EMPTY_AT_REST.has(name));
  if (empty.length > 0) throw new Error(`Give these a value: ${empty.map(({ name }) => name).join(', ')}`);
}
