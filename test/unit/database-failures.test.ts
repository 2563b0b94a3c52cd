import pg from 'pg';
import { expect, test } from 'vitest';
import { fromPrisma, Pool, toUnavailable } from '#dist/db/failures.js';
import type { AppError } from '#dist/errors.js';
import { createLogger } from '#dist/telemetry/logger.js';

/** How failures of the database are told apart. The tests in test/faults meet the most important ones on a real server. */

const fault = (properties: object, message = '') => Object.assign(new Error(message), properties);

const AWAY = 'The database cannot be reached now. Send the request again.';
const BROKEN = /^The connection to the database broke\. .* may or may not have been written: /;

const sqlState = (code: string, severity = 'FATAL') => fault({ code, severity }, 'in another language');

test.each([
  ['a refused connection', fault({ code: 'ECONNREFUSED', syscall: 'connect' })],
  ['a wrong password', sqlState('28P01')],
  ['no such role', sqlState('28000')],
  ['no such database', sqlState('3D000')],
  ['a database that takes no connections', sqlState('55000')],
  ['too many connections', sqlState('53300')],
  ['a server that starts or stops', sqlState('57P03')],
  ['a certificate that has expired', fault({ code: 'CERT_HAS_EXPIRED' })],
  ['what nobody has met yet', fault({ code: 'YY000' })],
])('while connecting, %s is UNAVAILABLE, and nothing was done', async (_what, cause) => {
  class Failing extends pg.Client {
    override connect(callback?: unknown): Promise<this> {
      (callback as (error: unknown) => void)(cause);
      return Promise.resolve(this);
    }
  }
  const failing = new Pool({ Client: Failing });
  const expected = { code: 'UNAVAILABLE', message: AWAY, headers: { 'retry-after': '1' }, cause };
  await expect(failing.connect()).rejects.toMatchObject(expected);
  const called = new Promise((resolve) => failing.connect(resolve));
  expect(await called).toMatchObject(expected);
  await expect(failing.query('SELECT 1')).rejects.toMatchObject(expected);
});

test.each([
  ['a standby', sqlState('25006', 'ERROR')],
  ['a pooler that cannot log in', sqlState('28P01')],
  ['a pooler that finds no database', sqlState('3D000')],
  ['a pooler that mixes prepared statements', sqlState('26000', 'ERROR')],
])('during a statement, %s is UNAVAILABLE, and nothing was done', (_what, cause) => {
  expect(toUnavailable(cause)).toMatchObject({ code: 'UNAVAILABLE', message: AWAY, headers: { 'retry-after': '1' } });
});

test.each([
  ['a broken connection', fault({ code: 'ECONNRESET', syscall: 'read' })],
  ['a connection that ended', fault({}, 'Connection terminated unexpectedly')],
  ['a connection that has failed before', fault({}, 'Client has encountered a connection error and is not queryable')],
  ['a server that ended the session', sqlState('57P01')],
  ['a server that crashed', sqlState('57P02')],
  ['a session that was idle for too long', sqlState('57P05')],
  ['a transaction that was idle for too long', sqlState('25P03')],
  ['a pooler without a server', sqlState('08P01')],
  ['a server without memory', sqlState('53200', 'ERROR')],
  ['a file that the server cannot read', sqlState('58030', 'ERROR')],
  ['a fault of the server itself', sqlState('XX000', 'ERROR')],
  ['a class of failures that nobody has met yet', sqlState('ZZ999', 'ERROR')],
  ['no answer', fault({}, 'Query read timeout')],
])('%s is UNAVAILABLE with an unknown outcome', (_what, cause) => {
  const { code, message, headers } = toUnavailable(cause) as AppError;
  expect([code, headers]).toEqual(['UNAVAILABLE', { 'retry-after': '1' }]);
  expect(message).toMatch(BROKEN);
});

test.each([
  ['a lock that was not given', '55P03', / is locked, .* Nothing was changed\./],
  ['a statement that took too long', '57014', /^The database took too long, .* Nothing was changed/],
  ['a conflict that came again', '40001', /^Other changes .* Nothing was changed\./],
  ['a deadlock that came again', '40P01', /^Other changes .* Nothing was changed\./],
])('%s is UNAVAILABLE, and nothing was changed, in whatever language the server speaks', (_what, state, words) => {
  const cause = fault({ code: state, severity: 'FEHLER', where: 'beim Sperren des Tupels' }, 'abgebrochen');
  const { code, headers, message } = toUnavailable(cause) as AppError;
  expect([code, headers]).toEqual(['UNAVAILABLE', { 'retry-after': '1' }]);
  expect(message).toMatch(words);
});

test.each([
  ['a unique violation', sqlState('23505', 'ERROR')],
  ['a syntax error', sqlState('42601', 'ERROR')],
  ['a missing table', sqlState('42P01', 'ERROR')],
  ['a value of the wrong form', sqlState('22P02', 'ERROR')],
  ['an error of a function of ours', sqlState('P0001', 'ERROR')],
  ['a fault of our own', new TypeError('x is not a function')],
  ['a file system that fails', fault({ code: 'EROFS', syscall: 'open' })],
])('%s stays as it is, and so becomes an internal error', (_what, cause) => {
  expect(toUnavailable(cause)).toBe(cause);
});

test('a full disk is UNAVAILABLE, and nothing was changed', () => {
  const { code, headers, message } = toUnavailable(fault({ code: '53100', severity: 'ERROR' })) as AppError;
  expect([code, headers]).toEqual(['UNAVAILABLE', { 'retry-after': '1' }]);
  expect(message).toMatch(/^There is no space left on the disk of the database\. .* nothing of it was changed\./);
});

const NO_FAILURE = { lastFailure: null };

/** An error of a model, as Prisma throws it. */
const ofModel = (cause: object) => fault({ code: 'P2010', meta: { driverAdapterError: { cause } } }, 'Prisma');

test.each([
  ['a connection that ended', { kind: 'ConnectionClosed' }, 'The connection to the database broke.'],
  ['a pooler without a server', { kind: 'postgres', originalCode: '08P01' }, 'The connection to the database broke.'],
  [
    'too many connections',
    { kind: 'TooManyConnections', originalCode: '53300' },
    'The database cannot be reached now.',
  ],
  ['no lock in time', { kind: 'postgres', originalCode: '55P03' }, 'What this request needs is locked'],
  ['a session that was idle', { kind: 'postgres', originalCode: '57P05' }, 'The connection to the database broke.'],
])('of a model of Prisma, %s is UNAVAILABLE as well', (_what, cause, message) => {
  expect(toUnavailable(fromPrisma(ofModel(cause), NO_FAILURE))).toMatchObject({
    code: 'UNAVAILABLE',
    message: expect.stringContaining(message),
  });
});

test('any other error of a model keeps its code and its message, and what is no error of a model stays as it is', () => {
  const cause = { kind: 'UniqueConstraintViolation', originalCode: '23505', originalMessage: 'duplicate key' };
  expect(fromPrisma(ofModel(cause), NO_FAILURE)).toMatchObject({ code: '23505', message: 'duplicate key' });
  const other = new Error('other');
  expect(fromPrisma(other, NO_FAILURE)).toBe(other);
});

test('a log that tells of a database that is away has no stack, and of a fault it has', () => {
  const lines: string[] = [];
  const log = createLogger('warn', { write: (line: string) => lines.push(line) });
  const away = fault({ code: 'ECONNREFUSED', syscall: 'connect' }, 'connect ECONNREFUSED 127.0.0.1:5432');
  log.warn({ err: toUnavailable(away) }, 'away');
  log.warn({ err: new TypeError('a fault', { cause: away }) }, 'fault');
  const [told, faulty] = lines.map((line) => JSON.parse(line).err);
  expect(told).toMatchObject({ type: 'AppError', cause: { code: 'ECONNREFUSED', message: away.message } });
  expect(JSON.stringify(told)).not.toContain('    at ');
  expect(faulty.stack).toContain('    at ');
});
