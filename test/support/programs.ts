import { existsSync } from 'node:fs';

/** Tells whether the tests of a program run: where it must be there (.ci/run), they fail without it. */
export function hasProgram(path: string): boolean {
  return existsSync(path) || process.env['REQUIRE_PROXIES'] !== undefined;
}
