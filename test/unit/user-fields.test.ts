import { describe, expect, test } from 'vitest';
import { OPERATIONS } from '#dist/client/generated/schema.js';
import { schema as dashboardSchema } from '#dist/dashboard/schema.js';
import { pickUser, selectColumns } from '#dist/domain/user-columns.js';
import type { User } from '#dist/domain/users.js';
import { schema } from '#dist/graphql/schema.js';

/**
 * Where a field of a user has to stand, for those who add one (docs/changing.md). What a field does, test/api/user-fields.test.ts tries; the page
 * and the command, test/browser/dashboard-screens.test.ts and test/process/users.test.ts.
 */

/** Fields that callers know by another name. */
const NAMES: Record<string, string> = { loginEmail: 'email', saidEmail: 'email' };
const nameOf = (field: string) => NAMES[field] ?? field;

const shown = selectColumns(({ isShown }) => isShown === true).map(({ field }) => field);
const given = selectColumns(({ from, line }) => from === 'login' && line !== undefined).map(({ field }) => field);
const changeable = selectColumns(({ isChangeable }) => isChangeable === true).map(({ field }) => field);
const SCHEMAS = { public: schema, operators: dashboardSchema };

const fieldsOf = (of: typeof schema, type: string) =>
  Object.keys((of.getType(type) as unknown as { getFields(): object }).getFields());

test('each shown field is read: pickUser in domain/user-columns.ts', () => {
  expect(Object.keys(pickUser({} as User)).sort()).toEqual([...shown].sort());
});

describe.each(Object.entries(SCHEMAS))('the schema %s', (_name, of) => {
  test.each(shown)('shows the field %s', (field) => {
    expect(fieldsOf(of, 'User')).toContain(nameOf(field));
  });
});

test('the fields of the table that may be changed are changed, and no others', () => {
  // The same column, by a patch.
  const fields = fieldsOf(schema, 'UpdateUserInput').filter((field) => field !== 'metadataPatch');
  expect(fields.sort()).toEqual(changeable.map(nameOf).sort());
});

test.each(given)('a login and a creation may give the field %s: graphql/logins.ts', (field) => {
  for (const type of ['RecordLoginInput', 'CreateUserInput']) expect(fieldsOf(schema, type)).toContain(nameOf(field));
});

test.each(shown)('the client asks for the field %s, also for a copy', (field) => {
  for (const { fields } of [OPERATIONS.user, OPERATIONS.usersByIds])
    expect(fields.split(/[\s{}]+/)).toContain(nameOf(field));
});

// A second one needs a refusal before the write (users/logins.sql.ts) and its own words (users/write-users.sql.ts).
test('one field is set once, whose refusal the statements know by its name', () => {
  expect(selectColumns(({ whenGiven }) => whenGiven === 'set once').map(({ name }) => name)).toEqual(['external_id']);
});
