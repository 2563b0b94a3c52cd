import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const CLIENTS: string = fileURLToPath(new URL('../clients', import.meta.url));

/** They are many and large, so they are a package of their own. CI sets REQUIRE_CLIENTS, so that their absence fails there. */
export const hasClients: boolean =
  existsSync(join(CLIENTS, 'node_modules')) || process.env['REQUIRE_CLIENTS'] !== undefined;
