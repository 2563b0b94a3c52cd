import {
  hasFailed,
  MAX_REQUEST_ID,
  newestFirst,
  type RecentRequest,
  type Remembered,
  type RequestHour,
} from '../domain/requests.js';
import { badInput } from '../errors.js';
import { instantOrNull, orNull, required, withDefault } from '../graphql/shared.js';
import { builder } from './builder.js';
import { readLimit } from './paging.js';
import { projectType } from './projects.js';

/** How many requests of one ID are looked at for a project of the operator. */
const MOST_PROJECTS = 100;

function readRequestId(id: string): string {
  if (id.length <= MAX_REQUEST_ID) return id;
  throw badInput('requestId', id, `text of at most ${MAX_REQUEST_ID} characters`);
}

/** What the workers of this host answered, as one. */
interface RecentRequests extends Omit<Remembered, 'since'> {
  readonly since: number | null;
  readonly workers: number;
  readonly answered: number;
}

function merge(answers: readonly (Remembered | null)[], first: number): RecentRequests {
  const remembered = answers.filter((answer) => answer !== null);
  const requests = remembered.flatMap((each) => each.requests).sort(newestFirst);
  const since = remembered.length === 0 ? null : Math.max(...remembered.map((each) => each.since));
  return { since, workers: answers.length, answered: remembered.length, requests: requests.slice(0, first) };
}

const toInstant = (ms: number) => new Date(ms).toISOString();

const requestType = builder.objectRef<RecentRequest>('RecentRequest').implement({
  description: 'A request of a project that was answered. Nothing of its URL or its body is kept.',
  fields: (t) => ({
    requestId: t.exposeString('id', { description: 'Its `X-Request-Id`.' }),
    at: t.field({
      type: 'DateTime',
      description: 'When it was answered; for a stream, when that ended.',
      resolve: ({ at }) => toInstant(at),
    }),
    ms: t.exposeFloat('ms', { description: 'How long that took.' }),
    method: t.exposeString('method', { description: 'Its method.' }),
    route: t.exposeString('route', { description: 'The pattern of its path.' }),
    operation: t.exposeString('operation', orNull('The name of its GraphQL operation.')),
    cost: t.exposeInt('cost', orNull('The cost of its GraphQL operation.')),
    status: t.exposeInt('status', { description: 'The status of its answer.' }),
    code: t.exposeString('code', orNull('The code of the first error of its answer.')),
    failed: t.boolean({
      description: 'Whether its answer was an error or had one.',
      resolve: hasFailed,
    }),
    secret: t.exposeString('secret', { description: 'The label of its secret.' }),
  }),
});

const requestsType = builder.objectRef<RecentRequests>('RecentRequests').implement({
  description: 'Requests that the workers of this host remember.',
  fields: (t) => ({
    requests: t.expose('requests', { type: [requestType], description: 'The newest first.' }),
    workers: t.exposeInt('workers', { description: 'How many workers this host has.' }),
    answered: t.exposeInt('answered', { description: 'How many of them answered.' }),
    since: t.field({
      ...instantOrNull(
        'Since when all of these run: what was answered before may be missing. Null where none answered.',
      ),
      resolve: ({ since }) => (since === null ? null : toInstant(since)),
    }),
  }),
});

const hourType = builder.objectRef<RequestHour>('RequestHour').implement({
  description: 'How much a project did in an hour, on all hosts.',
  fields: (t) => ({
    from: t.expose('from', { type: 'DateTime', description: 'When it began.' }),
    requests: t.exposeInt('requests', { description: 'Its requests with valid credentials.' }),
    failures: t.exposeInt('failures', { description: 'Those of them whose answer was an error or had one.' }),
    logins: t.exposeInt('logins', { description: 'Logins and registrations that were counted.' }),
  }),
});

builder.objectFields(projectType, (t) => ({
  recentRequests: t.field({
    type: requestsType,
    description: 'Its last requests to this host, which are kept in memory.',
    args: {
      failed: t.arg.boolean(withDefault(false, 'Only those that failed, of which others do not push out any.')),
      requestId: t.arg.string({ description: 'Only those with this `X-Request-Id`.' }),
      first: t.arg.int(withDefault(100, 'How many, 1 to 100.')),
    },
    resolve: async ({ scope }, { failed, requestId, first }, { askForRequests }) => {
      scope.projectIdFor('inspect');
      const question = { appId: scope.appId, requestId: requestId == null ? null : readRequestId(requestId) };
      const limit = readLimit('first', first);
      return merge(await askForRequests({ ...question, isFailed: failed }), limit);
    },
  }),
  requestHours: t.field({
    type: [hourType],
    description: 'Each hour of the last 30 days, the oldest first. The last half minute is missing.',
    resolve: ({ scope }, _args, { services }) => services.requestHours.list(scope),
  }),
}));

builder.queryField('projectOfRequest', (t) =>
  t.id({
    nullable: true,
    description:
      'The App ID of the project of the operator that has sent a request; null if no worker of this host remembers it.',
    args: { requestId: t.arg.string(required('Its `X-Request-Id`.')) },
    resolve: async (_root, { requestId }, { askForRequests, operator, services }) => {
      const answers = await askForRequests({ appId: null, requestId: readRequestId(requestId), isFailed: false });
      const { requests } = merge(answers, MOST_PROJECTS);
      // Callers choose their IDs, so several projects may have the same.
      const appIds = [...new Set(requests.map(({ appId }) => appId))];
      const opened = await Promise.all(appIds.map((appId) => services.projects.openProject(appId, operator)));
      return opened.find((project) => project !== null)?.appId ?? null;
    },
  }),
);
