import { expect, test } from 'vitest';
import { fromPrisma, toUnavailable } from '#dist/db/failures.js';
import type { AppError } from '#dist/errors.js';
import { createLogger } from '#dist/telemetry/logger.js';

/** How failures of the database are told apart. The tests in test/faults meet the most important ones on a real server. */

const fault = (properties: object, message = '') => Object.assign(new Error(message), properties);

test.each([
  ['a refused connection', fault({ code: 'ECONNREFUSED', syscall: 'connect' })],
  ['no connection in time', fault({}, 'timeout exceeded when trying to connect')],
  ['too many connections', fault({ code: '53300', severity: 'FATAL' })],
  ['a server that starts or stops', fault({ code: '57P03', severity: 'FATAL' })],
  ['a standby', fault({ code: '25006', severity: 'ERROR' })],
])('%s is UNAVAILABLE, to be sent again', (_what, cause) => {
  expect(toUnavailable(cause)).toMatchObject({
    code: 'UNAVAILABLE',
    message: 'The database cannot be reached now. Send the request again.',
    headers: { 'retry-after': '1' },
    cause,
  });
});

test.each([
  ['a broken connection', fault({ code: 'ECONNRESET', syscall: 'read' })],
  ['a connection that ended', fault({}, 'Connection terminated unexpectedly')],
  ['a server that ended the session', fault({ code: '57P01', severity: 'FATAL' })],
  ['a pooler without a server', fault({ code: '08P01', severity: 'FATAL' }, 'server closed the connection')],
  ['no answer', fault({}, 'Query read timeout')],
])('%s is UNAVAILABLE with an unknown outcome', (_what, cause) => {
  const { code, message } = toUnavailable(cause) as { code: string; message: string };
  expect(code).toBe('UNAVAILABLE');
  expect(message).toMatch(/^The connection to the database broke\. .* may or may not have been written: /);
});

test.each([
  ['a lock that was not given', fault({ code: '55P03', severity: 'ERROR' })],
  ['no time left at a row', fault({ code: '57014', where: 'while updating tuple (0,1) in relation "users"' })],
  ['no time left at a key', fault({ code: '57014', where: 'while inserting index tuple (0,1) in relation "x"' })],
])('%s is UNAVAILABLE, and nothing was changed', (_what, cause) => {
  const { code, headers, message } = toUnavailable(cause) as AppError;
  expect([code, headers]).toEqual(['UNAVAILABLE', { 'retry-after': '1' }]);
  expect(message).toMatch(/ is locked, .* Nothing was changed\./);
});

test.each([
  ['a unique violation', fault({ code: '23505', severity: 'ERROR' })],
  ['a statement timeout', fault({ code: '57014', severity: 'ERROR' })],
  ['a malformed message of the protocol', fault({ code: '08P01', severity: 'ERROR' })],
  ['a fault of our own', new TypeError('x is not a function')],
])('%s stays as it is', (_what, cause) => {
  expect(toUnavailable(cause)).toBe(cause);
});

test('a full disk is UNAVAILABLE, and nothing was changed', () => {
  const { code, headers, message } = toUnavailable(fault({ code: '53100', severity: 'ERROR' })) as AppError;
  expect([code, headers]).toEqual(['UNAVAILABLE', { 'retry-after': '1' }]);
  expect(message).toMatch(/^There is no space left on the disk of the database\. .* nothing of it was changed\./);
});

/** An error of a model, as Prisma throws it. */
const ofModel = (cause: object) => fault({ code: 'P2010', meta: { driverAdapterError: { cause } } }, 'Prisma');

test.each([
  ['no server', { kind: 'DatabaseNotReachable' }, 'The database cannot be reached now.'],
  ['a connection that ended', { kind: 'ConnectionClosed' }, 'The connection to the database broke.'],
  ['a pooler without a server', { kind: 'postgres', originalCode: '08P01' }, 'The connection to the database broke.'],
  [
    'too many connections',
    { kind: 'TooManyConnections', originalCode: '53300' },
    'The database cannot be reached now.',
  ],
  ['no time left at a row', { kind: 'postgres', originalCode: '57014' }, 'What this request needs is locked'],
])('of a model of Prisma, %s is UNAVAILABLE as well', (_what, cause, message) => {
  expect(toUnavailable(fromPrisma(ofModel(cause)))).toMatchObject({
    code: 'UNAVAILABLE',
    message: expect.stringContaining(message),
  });
});

test('any other error of a model keeps its code and its message, and what is no error of a model stays as it is', () => {
  const cause = { kind: 'UniqueConstraintViolation', originalCode: '23505', originalMessage: 'duplicate key' };
  expect(fromPrisma(ofModel(cause))).toMatchObject({ code: '23505', message: 'duplicate key' });
  const other = new Error('other');
  expect(fromPrisma(other)).toBe(other);
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
