import type { Services } from '../context.js';
import { cursor } from '../domain/cursors.js';
import { parse } from '../domain/parse.js';
import {
  AUDIT_ACTIONS,
  AUDIT_WORDS,
  type AuditAction,
  type AuditEntry,
  type AuditQuestion,
  type OpenProject,
} from '../domain/projects.js';
import { orNull, withDefault } from '../graphql/shared.js';
import { builder } from './builder.js';
import { type Connection, connectionType, firstArgument, readLimit, readNewest } from './paging.js';
import { projectType } from './projects.js';
import { userType } from './users.js';

const entryType = builder.objectRef<AuditEntry>('AuditEntry').implement({
  description: 'Something that was done to a project.',
  fields: (t) => ({
    id: t.exposeID('id', { description: 'Its id.' }),
    at: t.expose('at', { type: 'DateTime', description: 'When it was done.' }),
    actor: t.exposeString('actor', {
      description: 'Who did it: `operator:NAME`, `operator` for one without a name, or the label of a secret.',
    }),
    action: t.exposeString('action', { description: 'What was done: a name of `auditActions`.' }),
    words: t.string({
      description: 'The action in words, after the name of who did it.',
      resolve: ({ action }) => AUDIT_WORDS[action],
    }),
    requestId: t.exposeString('requestId', orNull('The id of the request; null for a command.')),
    userId: t.exposeID('userId', orNull('The user whom it concerns.')),
    details: t.string({ description: 'More about it, as JSON.', resolve: ({ details }) => JSON.stringify(details) }),
  }),
});

const actionType = builder.objectRef<AuditAction>('AuditAction').implement({
  description: 'Something that can be done to a project.',
  fields: (t) => ({
    name: t.string({ description: 'Its name, as in the command.', resolve: (action) => action }),
    words: t.string({ description: 'Its name in words.', resolve: (action) => AUDIT_WORDS[action] }),
  }),
});

const auditConnectionType = connectionType('AuditConnection', entryType, {
  description: 'A page of the audit trail, newest first.',
});

async function listPage(
  { audit }: Services,
  { scope }: OpenProject,
  question: AuditQuestion,
  { first, after }: { first: number; after?: string | null | undefined },
): Promise<Connection<AuditEntry>> {
  const page = { after: after ?? null, limit: readLimit('first', first) };
  const { entries, hasNext } = await audit.listPage(scope, question, page);
  return { nodes: entries, hasNextPage: hasNext, hasPreviousPage: after != null };
}

const afterArgument = cursor('after', 'the audit trail');
const AFTER = 'A cursor: only entries after it, which are older.';

builder.objectFields(projectType, (t) => ({
  audit: t.field({
    type: auditConnectionType,
    description: 'The audit trail, newest first: the entries that meet every condition given.',
    args: {
      actor: t.arg.string({ description: 'Who acted, such as `operator:ada`, exactly.' }),
      action: t.arg.string({ description: 'What was done: a name of `auditActions`.' }),
      userId: t.arg.id({ description: 'The user whom it concerns.' }),
      since: t.arg({ type: 'DateTime', description: 'Not before this: a date or an RFC 3339 date-time.' }),
      until: t.arg({ type: 'DateTime', description: 'Not after this: a date or an RFC 3339 date-time.' }),
      first: t.arg.int(firstArgument(50)),
      after: t.arg.string({ description: AFTER }),
    },
    resolve: (project, { first, after, ...question }, { services }) =>
      listPage(services, project, question, { first, after }),
  }),
  newestOfAudit: t.field({
    type: auditConnectionType,
    description: 'The newest entries of the audit trail, the oldest of them first.',
    args: {
      since: t.arg({ type: 'DateTime', description: 'Not before this: a date or an RFC 3339 date-time.' }),
      newest: t.arg.int(withDefault(1_000, 'How many entries on all pages together, if no more are added meanwhile.')),
      first: t.arg.int(firstArgument(50)),
      after: t.arg.string({ description: 'A cursor: only entries after it, which are newer.' }),
    },
    resolve: async ({ scope }, { since, newest, first, after }, { services: { audit } }) => {
      const limit = readLimit('first', first);
      const start =
        after == null ? await audit.findStart(scope, since, readNewest(newest)) : parse(afterArgument, after);
      const entries = await audit.listEntries(scope, start, limit + 1);
      return { nodes: entries.slice(0, limit), hasNextPage: entries.length > limit, hasPreviousPage: after != null };
    },
  }),
  auditActions: t.field({
    type: [actionType],
    description: 'What the audit trail can be filtered by, sorted by words.',
    resolve: () => [...AUDIT_ACTIONS].sort((one, other) => AUDIT_WORDS[one].localeCompare(AUDIT_WORDS[other])),
  }),
}));

builder.objectField(userType, 'audit', (t) =>
  t.field({
    type: auditConnectionType,
    description: 'The entries of the audit trail that concern the user, newest first.',
    args: {
      first: t.arg.int(firstArgument(20)),
      after: t.arg.string({ description: AFTER }),
    },
    resolve: ({ id, project }, page, { services }) => listPage(services, project, { userId: String(id) }, page),
  }),
);
