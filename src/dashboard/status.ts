import { VERSION } from '../config/build.js';
import type { Config } from '../config/config.js';
import type { Finding } from '../domain/findings.js';
import { requirePermission } from '../domain/operators.js';
import { costs } from '../engine/cost.js';
import { AppError } from '../errors.js';
import { orNull, required, valuesOf } from '../graphql/shared.js';
import { builder, type StatusSource, WHOLE_COST } from './builder.js';

const checkStateEnum = builder.enumType('CheckState', {
  description: 'What a check found.',
  values: valuesOf<Finding['status']>({
    passed: 'All is well.',
    warning: 'Something to know.',
    failed: 'Something to solve.',
    skipped: 'It was not checked.',
  }),
});

const checkType = builder.objectRef<Finding>('Check').implement({
  description: 'A check of `userdir doctor`.',
  fields: (t) => ({
    name: t.exposeString('id', { description: 'What is checked.' }),
    state: t.expose('status', { type: checkStateEnum, description: 'What was found.' }),
    message: t.exposeString('found', { description: 'What was found, in words.' }),
    advice: t.exposeString('advice', orNull('How to solve the problem.')),
  }),
});

const statusType = builder.objectRef<StatusSource>('Status').implement({
  description: 'How the service is.',
  fields: (t) => ({
    checks: t.field({
      type: [checkType],
      description: `What \`userdir doctor\` says of the database, without counting all users. At most ${CHECKED_FOR_MS / 1_000} seconds old.`,
      resolve: async ({ checks }) => (await checks()).filter(({ status }) => status !== 'skipped'),
    }),
    examination: t.field({
      type: [checkType],
      description: 'What `userdir doctor` says of the database now, also of what was not checked.',
      args: { totals: t.arg.boolean(required('Whether to count the users of some projects.')) },
      extensions: costs({ surcharge: WHOLE_COST }),
      resolve: ({ examine }, { totals }) => examine(totals),
    }),
    version: t.string({ description: 'The version of the service.', resolve: () => VERSION }),
    database: t.exposeString('database', { description: 'Which database it uses.' }),
    startedAt: t.expose('startedAt', { type: 'DateTime', description: 'When this process started.' }),
  }),
});

builder.queryField('status', (t) =>
  t.field({
    type: statusType,
    description: 'How the service is, with all its projects. Not for an operator who is limited to some.',
    resolve: (_root, _args, { status, operator }) => {
      requirePermission(operator, 'oversee');
      if (status !== null) return status;
      throw new AppError('CONFLICT', 'Only a server has a status, and none runs here.');
    },
  }),
);

builder.mutationField('noteRestore', (t) =>
  t.field({
    type: 'DateTime',
    description:
      'Notes that the database was restored, and returns when: new IDs begin far beyond the known ones, and webhooks are paused. Needs an ADMIN of all projects.',
    resolve: async (_root, _args, { services: { changes }, operator }) => {
      requirePermission(operator, 'govern');
      await changes.recognise('restored');
      return (await changes.findRestore()) as string;
    },
  }),
);

/** The checks ask the database ten questions one after another, so an answer serves all pages for so long. */
const CHECKED_FOR_MS = 10_000;

/** The same, but its result is kept. A failure is not. */
function keeping<Result>(make: () => Promise<Result>, ms: number): () => Promise<Result> {
  let made: { readonly result: Promise<Result>; readonly at: number } | null = null;
  return () => {
    if (made !== null && performance.now() - made.at < ms) return made.result;
    const result = make();
    const current = { result, at: performance.now() };
    made = current;
    result.catch(() => {
      if (made === current) made = null;
    });
    return result;
  };
}

/** What the page "Status" shows; `examine` has the checks of `userdir doctor` of the database. */
export function createStatus({ db, rateLimit }: Config, examine: StatusSource['examine']): StatusSource {
  return {
    startedAt: new Date(Date.now() - process.uptime() * 1_000).toISOString(),
    database: db.engine === 'embedded' ? 'embedded' : 'PostgreSQL',
    requestsPerMinute: rateLimit.requestsPerMinute,
    examine,
    checks: keeping(() => examine(false), CHECKED_FOR_MS),
  };
}
