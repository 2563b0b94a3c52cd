import { builder } from './builder.js';
import './audit.js';
import './bans.js';
import './identities.js';
import './merge-preview.js';
import './operators.js';
import './passkeys.js';
import './projects.js';
import './secrets.js';
import './status.js';
import './user-changes.js';
import './users.js';
import './webhooks.js';

export const schema = builder.toSchema();
