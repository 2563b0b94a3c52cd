import { randomBytes } from 'node:crypto';
import type { Database } from '../db/client.js';
import { createAccounts } from './accounts.js';
import { createLogins } from './logins.js';
import { createProjects } from './projects.js';
import { createTransfers } from './transfers.js';
import { createUsers } from './users.js';
import { createWallets } from './wallets.js';

export type Services = ReturnType<typeof createServices>;

/** Everything that the two interfaces and the command can do, over one database. */
export function createServices(db: Database) {
  return {
    projects: createProjects(db, randomBytes),
    users: createUsers(db),
    accounts: createAccounts(db),
    wallets: createWallets(db),
    logins: createLogins(db),
    transfers: createTransfers(db),
  };
}
