import { expect, test } from 'vitest';
import { findNodeFault, isOlder } from '#dist/config/build.js';

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

test('an older Node.js than package.json accepts is refused with the version that is needed', () => {
  expect(findNodeFault('18.20.8')).toBe('Node.js 18.20.8 is too old, 20.19 or newer is needed');
  expect(findNodeFault('20.18.3')).toMatch(/too old/);
  for (const version of ['20.19.0', '22.1.0', '24.0.0']) expect(findNodeFault(version)).toBe(null);
});
