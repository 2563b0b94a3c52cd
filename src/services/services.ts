import { randomBytes } from 'node:crypto';
import type { Database } from '../db/database.js';
import { createAccounts } from './accounts.js';
import { createAudit } from './audit.js';
import type { OnFailure } from './background.js';
import { createChanges } from './changes.js';
import { createDocuments } from './documents.js';
import { createLogins } from './logins.js';
import { createOperators } from './operators.js';
import { createProjectLifecycle } from './project-lifecycle.js';
import { createProjects } from './projects.js';
import { createReceipts, type ReceiptOptions } from './receipts.js';
import { createSecrets } from './secrets.js';
import type { Spool } from './spool.js';
import { createStatistics } from './statistics.js';
import { createTotals } from './totals.js';
import { createTransfers } from './transfers.js';
import { createUsers } from './users.js';
import { createWallets } from './wallets.js';
import { createWebhooks } from './webhooks.js';

export type Services = ReturnType<typeof createServices>;

export interface ServicesOptions {
  /** How long changes are kept. */
  readonly changesRetentionMs: number;
  readonly receipts: ReceiptOptions;
  /** Whether webhooks may lead to private addresses, and over http. */
  readonly webhooksAllowPrivate: boolean;
  readonly spool: Spool;
  readonly onFailure?: OnFailure | undefined;
}

/** Everything that the two interfaces and the command can do with one database. */
export function createServices(db: Database, options: ServicesOptions) {
  const { changesRetentionMs, webhooksAllowPrivate: allowPrivate, onFailure = () => undefined } = options;
  const receipts = createReceipts(options.receipts);
  const totals = createTotals(db, onFailure);
  const projects = createProjects(db, randomBytes, onFailure);
  const changes = createChanges(db, changesRetentionMs, onFailure);
  return {
    totals,
    projects,
    lifecycle: createProjectLifecycle(db, totals, projects.forgetCredentials),
    secrets: createSecrets(db, randomBytes, projects.forgetCredentials),
    documents: createDocuments(db, projects.forgetCredentials, onFailure),
    audit: createAudit(db),
    operators: createOperators(db, randomBytes),
    users: createUsers(db, totals),
    statistics: createStatistics(db, totals),
    accounts: createAccounts(db),
    receipts,
    wallets: createWallets(db, receipts),
    logins: createLogins(db, totals),
    transfers: createTransfers(db, totals, options.spool),
    spool: options.spool,
    changes,
    webhooks: createWebhooks(db, changes, randomBytes, { allowPrivate, onFailure }),
  };
}
