import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const CLIENTS: string = fileURLToPath(new URL('../clients', import.meta.url));

/** The clients are large, so they are a separate package. CI sets REQUIRE_CLIENTS: there they must be installed. */
export const hasClients: boolean =
  existsSync(join(CLIENTS, 'node_modules')) || process.env['REQUIRE_CLIENTS'] !== undefined;
