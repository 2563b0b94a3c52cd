import { readFileSync } from 'node:fs';

/** The parts of package.json that are used. */
export const PACKAGE: {
  readonly version: string;
  readonly engines: { readonly node: string };
  readonly dependencies: Readonly<Record<string, string>>;
} = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));

export const VERSION: string = PACKAGE.version;
