import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { findRevived } from '#dist/feed/changes.sql.js';
import { type OpenDatabase, openTestDatabase } from '../support/database.js';

/** What a restore may have brought back, which `doctor` tells an operator to look through: all that is of before it. */

let db: OpenDatabase;
beforeAll(async () => {
  db = await openTestDatabase();
});
afterAll(() => db.drop());

const RESTORED = '2026-05-01T12:00:00Z';
/** An instant so many hours after the restore. */
const at = (hours: number) => new Date(Date.parse(RESTORED) + hours * 3_600_000).toISOString();
const run = (text: string, ...values: unknown[]) => db.pool.query(text, values);

beforeEach(async () => {
  await run('TRUNCATE projects, operators, operator_log, database_identity RESTART IDENTITY CASCADE');
  await run(`INSERT INTO database_identity (place, restored_at) VALUES ('here', $1)`, RESTORED);
  await run(`INSERT INTO projects (name, app_id) VALUES ('A', 'app_a'), ('B', 'app_b')`);
});

const addSecret = (hours: number, label: string, expiresAt: string | null = null, project = 1) =>
  run(
    `INSERT INTO app_secrets (project_id, secret_hash, label, created_at, expires_at) VALUES ($1, sha256($2::bytea), $3, $4, $5)`,
    project,
    `${label} ${hours}`,
    label,
    at(hours),
    expiresAt,
  );
const addOperator = (hours: number, name: string) =>
  run(`INSERT INTO operators (name, role, created_at) VALUES ($1, 'admin', $2)`, name, at(hours));
const addEntry = (hours: number, actor: string, project = 1) =>
  run(
    `INSERT INTO audit_log (project_id, at, actor, action, details) VALUES ($1, $2, $3, 'remove', '{}')`,
    project,
    at(hours),
    actor,
  );
const addToLog = (hours: number, actor: string) =>
  run(`INSERT INTO operator_log (at, actor, action, details) VALUES ($1, $2, 'log_in', '{}')`, at(hours), actor);

test('of a database without anything there is nothing to look through', async () => {
  expect(await findRevived(db)).toEqual({
    lastAct: null,
    secrets: 0,
    secretNames: [],
    operators: 0,
    operatorNames: [],
    bans: 0,
  });
});

test('the secrets of before that are still valid are counted, and the newest five named', async () => {
  for (const hours of [-7, -6, -5, -4, -3, -2, 0, 1]) await addSecret(hours, `of${hours}`, null, hours === -2 ? 2 : 1);
  await addSecret(-1, 'ended', new Date(Date.now() - 1_000).toISOString());
  await addSecret(-8, 'ends', new Date(Date.now() + 600_000).toISOString());
  const { secrets, secretNames } = await findRevived(db);
  expect(secrets).toBe(8);
  expect(secretNames.map((name) => name.replace(/^\d+ /, ''))).toEqual([
    '(of0) of app_a',
    '(of-2) of app_b',
    '(of-3) of app_a',
    '(of-4) of app_a',
    '(of-5) of app_a',
  ]);
});

test('the operators of before are counted, and the newest five named; the bans are counted', async () => {
  for (const hours of [-6, -5, -4, -3, -2, -1, 1])
    await addOperator(hours, `ada${Math.abs(hours)}${hours > 0 ? 'x' : ''}`);
  for (const hours of [-2, 0, 2])
    await run(
      `INSERT INTO bans (project_id, auth_method, auth_value, auth_value_key, created_at) VALUES (2, 'google', $1, $1, $2)`,
      `eve${hours}`,
      at(hours),
    );
  const { operators, operatorNames, bans } = await findRevived(db);
  expect([operators, operatorNames, bans]).toEqual([6, ['ada1', 'ada2', 'ada3', 'ada4', 'ada5'], 2]);
});

test('the last act of before is that of a backend or of an operator, whichever is later', async () => {
  const lastAct = async () => (await findRevived(db)).lastAct;
  await addEntry(-9, 'main');
  await addEntry(-8, 'later');
  await addEntry(1, 'after');
  expect(await lastAct()).toBe(`remove by later of app_a at ${at(-8)}`);
  // Of two at the same instant, the one that was written last.
  await addEntry(-7, 'first', 2);
  await addEntry(-7, 'second', 2);
  expect(await lastAct()).toBe(`remove by second of app_b at ${at(-7)}`);
  await addToLog(-6, 'operator:ada');
  await addToLog(0, 'operator:bob');
  await addToLog(0, 'operator:cleo');
  await addToLog(3, 'operator:dora');
  expect(await lastAct()).toBe(`log_in by operator:cleo at ${at(0)}`);
});
