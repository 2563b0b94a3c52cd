import { expect, test } from 'vitest';
import { parseProfile } from '#dist/domain/identities.js';
import { camelCase } from '#dist/domain/spelling.js';
import { retryOf } from '#dist/projects/idempotency.js';
import { changesOf } from '#dist/users/logins.js';

/** Logins that have a key in common are not written by one statement, which could not tell which of them was first. */

const loginOf = ({
  projectId = 1,
  authMethod = 'google',
  authValue = 'ada',
  externalId = null,
  key = null,
}: {
  projectId?: number;
  authMethod?: string;
  authValue?: string;
  externalId?: string | null;
  key?: string | null;
}) => ({
  projectId,
  profile: parseProfile({ authMethod, authValue, externalId }, camelCase),
  retry: retryOf(key, []),
});

type Given = Parameters<typeof loginOf>[0];

const share = (one: Given, other: Given) => {
  const keys = new Set(changesOf(loginOf(one)));
  return changesOf(loginOf(other)).some((key) => keys.has(key));
};

test.each<[what: string, one: Given, other: Given]>([
  ['an identity', {}, {}],
  [
    'an email in another spelling',
    { authMethod: 'email', authValue: 'Ada@Example.com' },
    { authMethod: 'email', authValue: 'ada@example.com' },
  ],
  ['an external ID', { externalId: 'x' }, { authValue: 'grace', externalId: 'x' }],
  ['an idempotency key', { key: 'k' }, { authValue: 'grace', key: 'k' }],
])('two logins of a project have %s in common', (_, one, other) => {
  expect(share(one, other)).toBe(true);
  expect(share(one, { ...other, projectId: 2 })).toBe(false);
});

test.each<[what: string, one: Given, other: Given]>([
  ['of other identities', {}, { authValue: 'grace' }],
  ['of one value under two methods', {}, { authMethod: 'github' }],
  ['with other external IDs', { externalId: 'x' }, { authValue: 'grace', externalId: 'y' }],
  ['with other keys', { key: 'k' }, { authValue: 'grace', key: 'l' }],
  ['of which one has what the other has as something else', { externalId: 'ada' }, { authValue: 'grace', key: 'ada' }],
])('two logins %s have nothing in common', (_, one, other) => {
  expect(share(one, other)).toBe(false);
});
