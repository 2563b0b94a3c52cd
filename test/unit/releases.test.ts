import { expect, test } from 'vitest';
import { isOlder } from '#dist/config/build.js';

test.each([
  ['0.9.0', '0.9.1', true],
  ['0.9.0', '0.10.0', true],
  ['0.9.9', '1.0.0', true],
  ['0.9.0', '0.9.0', false],
  ['1.0.0', '0.9.9', false],
  ['0.10.0', '0.9.9', false],
  ['1.0.0-rc.1', '1.0.0', false],
])('%s is older than %s: %s', (version, other, expected) => {
  expect(isOlder(version, other)).toBe(expected);
});
