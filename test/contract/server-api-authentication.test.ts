import { beforeAll, describe, expect, test } from 'vitest';
import { type TestProject, useTestApp } from '../support/app.js';
import { basic, expectError, SIX_ROUTES } from '../support/rest.js';

/** The REST contract, sentence by sentence: "Authentication". */

const app = useTestApp();
let project: TestProject;
let other: TestProject;
beforeAll(async () => {
  [project, other] = await Promise.all([app.createProject(), app.createProject()]);
});

async function call(headers: Record<string, string>, path = '/server/users', init: RequestInit = {}) {
  const answer = await fetch(app.url + path, { ...init, headers: { ...(init.headers as object), ...headers } });
  return { status: answer.status, body: await answer.json() };
}

describe('two equivalent schemes are accepted, on every route', () => {
  test.each(SIX_ROUTES)('headers service-app-id and service-app-secret: $route', async ({ path, init }) => {
    // 404: the single-user routes use the id of a user that does not exist.
    expect([200, 404]).toContain((await call(project.credentials, path, init)).status);
  });

  test.each(SIX_ROUTES)(
    'HTTP Basic, the App ID as user name and the App Secret as password: $route',
    async ({ path, init }) => {
      const byHeaders = await call(project.credentials, path, init);
      expect(await call(basic(`${project.appId}:${project.appSecret}`), path, init)).toEqual(byHeaders);
    },
  );
});

describe('1. missing or invalid App ID or App Secret returns 401 with an error body', () => {
  test.each(SIX_ROUTES)('all routes require authentication: $route', async ({ path, init }) => {
    expectError(await call({}, path, init), 401);
  });

  const wrong: [string, () => Record<string, string>][] = [
    ['no App ID', () => ({ 'service-app-secret': project.appSecret })],
    ['no App Secret', () => ({ 'service-app-id': project.appId })],
    ['empty values', () => ({ 'service-app-id': '', 'service-app-secret': '' })],
    ['an unknown App ID', () => ({ ...project.credentials, 'service-app-id': `app_${'0'.repeat(24)}` })],
    ['an App ID of no form', () => ({ ...project.credentials, 'service-app-id': "' OR 1=1 --" })],
    ['a wrong App Secret', () => ({ ...project.credentials, 'service-app-secret': `${project.appSecret}x` })],
    [
      'the App Secret in other case',
      () => ({
        ...project.credentials,
        'service-app-secret': project.appSecret.toUpperCase(),
      }),
    ],
    ['the two swapped', () => ({ 'service-app-id': project.appSecret, 'service-app-secret': project.appId })],
    ['a wrong secret by Basic', () => basic(`${project.appId}:wrong`)],
    ['Basic without a colon', () => ({ authorization: `Basic ${Buffer.from(project.appId).toString('base64')}` })],
    ['Basic that is no Base64', () => ({ authorization: `Basic ${project.appId}:${project.appSecret}` })],
    ['Basic with nothing', () => ({ authorization: 'Basic' })],
    ['another scheme', () => ({ authorization: `Bearer ${project.appSecret}` })],
  ];
  test.each(wrong)('%s', async (_what, headers) => {
    const error = expectError(await call(headers()), 401);
    expect(error).not.toContain(project.appSecret);
    expect(error).not.toContain(project.appId);
  });

  test('credentials in the query are ignored', async () => {
    const query = new URLSearchParams(project.credentials);
    expectError(await call({}, `/server/users?${query}`), 401);
  });
});

describe('3. credentials are per project', () => {
  test('the App Secret of one project is refused for another', async () => {
    expectError(await call({ ...project.credentials, 'service-app-secret': other.appSecret }), 401);
    expectError(await call(basic(`${other.appId}:${project.appSecret}`)), 401);
  });

  test('each request acts on the project of its own credentials', async () => {
    await project.addUsers({ auth_method: 'google', auth_value: 'one' });
    const [own, theirs] = await Promise.all([
      call(project.credentials),
      call(basic(`${other.appId}:${other.appSecret}`)),
    ]);
    expect([own.body, theirs.body]).toMatchObject([{ result: { total_user: 1 } }, { result: { total_user: 0 } }]);
  });
});

test('4. after an exposed secret is rotated, the new one is accepted and the old one is refused', async () => {
  const rotated = await app.createProject();
  const { projects, secrets } = app.context.services;
  const { appSecret } = await secrets.rotateSecret(await projects.getScope(rotated.appId), { overlapMs: 0 });
  expectError(await call(rotated.credentials), 401);
  expect((await call({ ...rotated.credentials, 'service-app-secret': appSecret })).status).toBe(200);
});
