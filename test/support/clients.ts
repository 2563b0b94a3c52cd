import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { inject } from 'vitest';

export const CLIENTS: string = fileURLToPath(new URL('../clients', import.meta.url));

/** They are many and large, so they are a package of their own. CI sets REQUIRE_CLIENTS, so that their absence fails there. */
const isInstalled = existsSync(join(CLIENTS, 'node_modules')) || process.env['REQUIRE_CLIENTS'] !== undefined;

/** Whether to test clients: they look at answers and documents, which are the same on both engines, and are built in one folder. */
export const testsClients: boolean = isInstalled && inject('engine') === 'embedded';
