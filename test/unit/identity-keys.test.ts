import { afterEach, expect, test } from 'vitest';
import { parseIdentity } from '#dist/domain/identities.js';
import { INPUT_LIMITS } from '#dist/domain/input-limits.js';
import { snakeCase } from '#dist/domain/spelling.js';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';

/** What identities are compared by. The keys are stored, so a value has the same for ever. */

const FAR = `${'A'.repeat(60)}@${'Long.'.repeat(40)}Example`;
const KEYS: readonly (readonly [method: string, value: string, key: string])[] = [
  ['email', ' Ada@Example.COM ', 'ada@example.com'],
  ['email', 'Bär@Bücher.example', 'bär@bücher.example'],
  ['email', 'bär@xn--bcher-kva.example', 'bär@bücher.example'],
  ['google', '104857600', '104857600'],
  ['google', 'MixedCase-ID', 'MixedCase-ID'],
  ['saml', 'Ada@Corp.Example', 'ada@corp.example'],
  ['saml', FAR, FAR.toLowerCase()],
  ['saml', `${'A'.repeat(60)}@${'Long.'.repeat(60)}Example`, `${'A'.repeat(60)}@${'Long.'.repeat(60)}Example`],
  ['saml', 'no email@ corp.example', 'no email@ corp.example'],
  ['passkey', 'Ab-_09', 'Ab-_09'],
  ['passkey', 'ΣΊΣΥΦΟΣ@example.com', 'σίσυφοσ@example.com'],
  ['wallet', ethereumAddress(1), ethereumAddress(1).toLowerCase()],
  ['wallet', stellarAddress(1), stellarAddress(1)],
];

const { max: today } = INPUT_LIMITS.email;
const limitTo = (max: number) => Object.assign(INPUT_LIMITS.email, { max });
afterEach(() => limitTo(today));

test.each([today, 200, 1_000])('keys are what they were, if an email may have %i characters', (max) => {
  limitTo(max);
  const keys = KEYS.map(([authMethod, authValue]) => parseIdentity({ authMethod, authValue }, snakeCase).authValueKey);
  expect(keys).toEqual(KEYS.map(([, , key]) => key));
});
