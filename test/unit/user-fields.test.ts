import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { schema as dashboardSchema } from '#dist/dashboard/schema.js';
import { selectColumns, type User } from '#dist/domain/users.js';
import { schema } from '#dist/graphql/schema.js';
import { pickUser } from '#dist/users/user-columns.sql.js';
import { ROOT } from '../support/checkout.js';

/** Where a field of a user has to stand, for whoever adds one (docs/changing.md). */

/** Fields that callers know by another name. */
const NAMES: Record<string, string> = { loginEmail: 'email', saidEmail: 'email' };
/** Fields that commands do not print: it follows from the method. */
const NOT_PRINTED = ['loginMethod'];

const shown = selectColumns(({ isShown }) => isShown === true);
const nameOf = (field: string) => NAMES[field] ?? field;
const textOf = (path: string) => readFileSync(join(ROOT, 'src', path), 'utf8');

describe.each(shown.map(({ field }) => field))('the field %s of a user', (field) => {
  const fieldsOf = (type: unknown) => Object.keys((type as { getFields(): object }).getFields());

  test('is read', () => {
    expect(Object.keys(pickUser({} as User))).toContain(field);
  });

  test('is in the public schema: graphql/users.ts', () => {
    expect(fieldsOf(schema.getType('User'))).toContain(nameOf(field));
  });

  test('is in the schema of the operators: dashboard/users.ts', () => {
    expect(fieldsOf(dashboardSchema.getType('User'))).toContain(nameOf(field));
  });

  test('is on the page of a user: dashboard/pages/user.tsx', () => {
    expect(textOf('dashboard/pages/user.tsx')).toMatch(new RegExp(`\\b${nameOf(field)}\\b`));
  });

  test.skipIf(NOT_PRINTED.includes(field))('is printed by `user get`: cli/user.ts', () => {
    expect(textOf('cli/user.ts')).toMatch(new RegExp(`\\b${nameOf(field)}\\b`));
  });
});

test.each(selectColumns(({ from, line }) => from === 'login' && line !== undefined).map(({ field }) => field))(
  'a login may give the field %s: graphql/logins.ts',
  (field) => {
    const input = schema.getType('RecordLoginInput') as unknown as { getFields(): object };
    expect(Object.keys(input.getFields())).toContain(nameOf(field));
  },
);
