import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { beforeAll, expect, test, vi } from 'vitest';
import { REFUSAL_REASONS, type RefusalReason } from '#dist/domain/projects.js';
import { unavailable } from '#dist/errors.js';
import { type TestProject, useTestApp } from '../support/app.js';
import { basic } from '../support/rest.js';
import { PATIENCE } from '../support/waiting.js';

/** What the log and the metrics say of callers who are refused, so that support can answer why. */
const app = useTestApp({ env: { METRICS_PORT: '0' } });
let project: TestProject;
let other: TestProject;
let disabled: TestProject;
beforeAll(async () => {
  [project, other, disabled] = [await app.createProject(), await app.createProject(), await app.createProject()];
  const { projects, lifecycle } = app.context.services;
  await lifecycle.disableProject(await projects.getScope(disabled.appId), null);
});

const UNKNOWN = `app_${'0'.repeat(24)}`;
const headers = (appId: string, appSecret: string) => ({ 'service-app-id': appId, 'service-app-secret': appSecret });

/** For each reason the headers that are refused, and the App ID that is logged. */
const REFUSED: Record<RefusalReason, () => [sent: Record<string, string>, logged?: string]> = {
  missing: () => [{}],
  missing_app_id: () => [{ 'service-app-secret': project.appSecret }],
  missing_secret: () => [{ 'service-app-id': project.appId }, project.appId],
  bearer: () => [{ authorization: `Bearer ${project.appSecret}` }],
  not_basic: () => [{ authorization: project.appSecret }],
  swapped: () => [headers(project.appSecret, project.appId)],
  quoted: () => [headers(`"${project.appId}"`, project.appSecret)],
  white_space: () => [basic(`${project.appId}:${project.appSecret}\n`), project.appId],
  malformed_app_id: () => [headers(project.appId.slice(0, -1), project.appSecret)],
  malformed_secret: () => [headers(project.appId, project.appSecret.slice(0, -1)), project.appId],
  unknown_app_id: () => [headers(UNKNOWN, project.appSecret), UNKNOWN],
  wrong_secret: () => [headers(project.appId, other.appSecret), project.appId],
  project_disabled: () => [headers(disabled.appId, disabled.appSecret), disabled.appId],
};

/** The line of a request, which is logged when its answer has been sent. */
const lineOf = (requestId: string) =>
  vi.waitFor(
    () =>
      JSON.parse(app.logged.find((line) => line.includes(`"reqId":"${requestId}"`) && line.includes('"ms":')) ?? ''),
    PATIENCE,
  );

async function countOf(reason: string): Promise<number> {
  const text = await (await fetch(app.metricsUrl)).text();
  return Number(
    new RegExp(`^userdir_authentication_failures_total\\{reason="${reason}"\\} (\\d+)$`, 'm').exec(text)?.[1] ?? 0,
  );
}

test.each(REFUSAL_REASONS)(
  '%s: the line has the reason, the code and only what is an App ID, and it is counted',
  async (reason) => {
    const [sent, appId] = REFUSED[reason]();
    const before = await countOf(reason);
    const code = reason === 'project_disabled' ? 'PROJECT_DISABLED' : 'UNAUTHENTICATED';
    for (const path of ['/server/users', '/graphql?query={userCount}']) {
      const id = randomUUID();
      const answer = await fetch(app.url + path, { headers: { ...sent, 'x-request-id': id } });
      const line = await lineOf(id);
      expect(line).toMatchObject({ status: answer.status, code, reason });
      expect([line.appId, line.project]).toEqual([appId, undefined]);
    }
    expect((await countOf(reason)) - before).toBe(2);
  },
);

test('a request with valid credentials has the code of its failure, and no reason', async () => {
  const { projects, secrets } = app.context.services;
  const terms = { label: 'wallets', scopes: ['verify' as const], expiresInMs: null };
  const limited = await secrets.addSecret(await projects.getScope(project.appId), terms);
  const query = (text: string) => `/graphql?query=${encodeURIComponent(text)}`;
  const hash = JSON.stringify({ persistedQuery: { version: 1, sha256Hash: 'ab'.repeat(32) } });
  const calls: [path: string, code: string | undefined, secret?: string][] = [
    ['/server/users/count', undefined],
    ['/server/users/999999', 'NOT_FOUND'],
    ['/server/users/count', 'FORBIDDEN', limited.appSecret],
    ['/changes', 'FORBIDDEN', limited.appSecret],
    [query('{ userCount }'), undefined],
    [query('{ userCount }'), 'FORBIDDEN', limited.appSecret],
    [query('{ user(id: "x") { id } }'), 'BAD_USER_INPUT'],
    [query('{ nothing }'), 'BAD_USER_INPUT'],
    [query('{'), 'BAD_USER_INPUT'],
    [`/graphql?extensions=${encodeURIComponent(hash)}`, 'PERSISTED_QUERY_NOT_FOUND'],
  ];
  for (const [path, code, secret = project.appSecret] of calls) {
    const id = randomUUID();
    await fetch(app.url + path, { headers: { ...headers(project.appId, secret), 'x-request-id': id } });
    const line = await lineOf(id);
    const logged = [line.code, line.project, line.reason, line.appId];
    expect(logged, path).toEqual([code, project.appId, undefined, undefined]);
  }
});

test('a caller whom a fault keeps from being authenticated was not refused', async () => {
  const everyReason = async () => (await Promise.all(REFUSAL_REASONS.map(countOf))).join();
  const before = await everyReason();
  const unused = await app.createProject();
  const id = randomUUID();
  const away = vi.spyOn(app.context.services.projects, 'authenticate').mockRejectedValueOnce(unavailable('Away.'));
  const sent = { ...headers(unused.appId, unused.appSecret), 'x-request-id': id };
  expect((await fetch(`${app.url}/server/users`, { headers: sent })).status).toBe(503);
  away.mockRestore();
  const line = await lineOf(id);
  expect([line.code, line.reason, line.appId]).toEqual(['UNAVAILABLE', undefined, undefined]);
  expect(await everyReason()).toBe(before);
});

test('the page for operators says what to do for each reason', () => {
  const page = readFileSync(new URL('../../docs/operating.md', import.meta.url), 'utf8');
  const table = /\n\| `reason` \|.*?\n\n/s.exec(page)?.[0] ?? '';
  const named = [...table.matchAll(/^\| (`[^|]*`) \|/gm)]
    .slice(1)
    .flatMap(([, names = '']) => names.match(/\w+/g) ?? []);
  expect(named).toEqual(REFUSAL_REASONS);
});
