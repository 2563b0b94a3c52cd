import { VERSION } from '../config/version.js';
import { builder, type Check, type Figure } from './builder.js';

const checkStateEnum = builder.enumType('CheckState', {
  description: 'What a check found.',
  values: {
    OK: { value: 'ok', description: 'All is well.' },
    WARNING: { value: 'warning', description: 'Something to know.' },
    PROBLEM: { value: 'problem', description: 'Something to solve.' },
  } as const,
});

const checkType = builder.objectRef<Check>('Check').implement({
  description: 'A check of `userdir doctor`.',
  fields: (t) => ({
    name: t.exposeString('name', { description: 'What is checked.' }),
    state: t.expose('state', { type: checkStateEnum, description: 'What was found.' }),
    message: t.exposeString('message', { description: 'What was found, in words.' }),
    advice: t.exposeString('advice', { nullable: true, description: 'How to solve the problem.' }),
  }),
});

const figureType = builder.objectRef<Figure>('Figure').implement({
  description: 'A number at this moment, of this process.',
  fields: (t) => ({
    name: t.exposeString('name', { description: 'A name that never changes.' }),
    description: t.exposeString('description', { description: 'What it is.' }),
    value: t.exposeFloat('value', { description: 'The number.' }),
    unit: t.exposeString('unit', { description: 'Its unit; empty for a count.' }),
  }),
});

const statusType = builder.objectRef<object>('Status').implement({
  description: 'How the service is.',
  fields: (t) => ({
    checks: t.field({
      type: [checkType],
      description: 'What `userdir doctor` says of the database, without counting all users. At most ten seconds old.',
      resolve: (_status, _args, { status }) => status.checks(),
    }),
    figures: t.field({
      type: [figureType],
      description: 'The load of this process.',
      resolve: (_status, _args, { status }) => status.figures(),
    }),
    version: t.string({ description: 'The version of the service.', resolve: () => VERSION }),
    database: t.string({
      description: 'Which database it uses.',
      resolve: (_status, _args, { status }) => status.database,
    }),
    startedAt: t.field({
      type: 'DateTime',
      description: 'When this process started.',
      resolve: (_status, _args, { status }) => status.startedAt.toISOString(),
    }),
  }),
});

builder.queryField('status', (t) =>
  t.field({ type: statusType, description: 'How the service is.', resolve: () => ({}) }),
);
