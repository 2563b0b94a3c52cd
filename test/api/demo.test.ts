import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openDemo } from '#dist/app/demo.js';
import { type Json, startTestApp, useTestApp } from '../support/app.js';

/** What a person tries first in the demo project has something to answer. */
let demo: { appId: string; appSecret: string } | null = null;
const app = useTestApp({ ownDatabase: true, demoCredentials: () => demo });
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'userdir-demo-'));
  demo = await openDemo(app.context.services, folder, true);
});
afterAll(() => rm(folder, { recursive: true }));

const ask = async (path: string, body?: unknown): Promise<Json> => {
  const { appId = '', appSecret = '' } = demo ?? {};
  const headers = { 'service-app-id': appId, 'service-app-secret': appSecret, 'content-type': 'application/json' };
  const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
  return (await fetch(app.url + path, { headers, ...init })).json();
};

/** Whether every field has a value, and every list an item. */
const saysSomething = (value: unknown): boolean =>
  Array.isArray(value) ? value.length > 0 : value !== null && value !== false;

/** The tabs with which GraphiQL opens. */
async function tabsOf({ url }: { url: string }): Promise<Json[]> {
  const page = await fetch(`${url}/graphql`, { headers: { accept: 'text/html' } }).then((answer) => answer.text());
  return JSON.parse(`[${/"defaultTabs":\[(.*?)\],"headers":/s.exec(page)?.[1]}]`);
}

test('GraphiQL opens with the credentials of the demo project, and elsewhere with what to put there', async () => {
  const [first] = await tabsOf(app);
  expect(first.query).toMatch(/^# The demo project, all of it made up\./);
  expect(JSON.parse(first.headers)).toEqual({
    'service-app-id': demo?.appId,
    'service-app-secret': demo?.appSecret,
  });
  await using other = await startTestApp({ env: { GRAPHIQL: 'on' } });
  const tabs = await tabsOf(other);
  expect(tabs[0].query).toMatch(/^# Put the App ID and the App Secret of a\n/);
  for (const { headers } of tabs)
    expect(JSON.parse(headers)).toEqual({ 'service-app-id': '<APP_ID>', 'service-app-secret': '<APP_SECRET>' });
});

test.each(['/docs/reference', '/docs/try'])(
  '%s has the credentials of the demo project, and elsewhere none',
  async (path) => {
    const credentialsOf = async ({ url }: { url: string }) => {
      const page = await fetch(url + path).then((answer) => answer.text());
      return page
        .match(/(?<=<meta name="demo" content=")[^"]*/g)
        ?.map((text) => JSON.parse(text.replaceAll('&quot;', '"')));
    };
    expect(await credentialsOf(app)).toEqual([demo]);
    await using other = await startTestApp();
    expect(await credentialsOf(other)).toBeUndefined();
  },
);

test('each example of GraphiQL', async () => {
  const tabs = await tabsOf(app);
  expect(tabs).toHaveLength(7);
  for (const { query, variables = '{}' } of tabs) {
    const { data, errors } = await ask('/graphql', { query, variables: JSON.parse(variables) });
    expect(errors).toBeUndefined();
    for (const [name, value] of Object.entries<Json>(data)) {
      const nodes = value.nodes ?? value.users ?? value.exists ?? value;
      expect([name, nodes, saysSomething(nodes)]).toEqual([name, nodes, true]);
    }
  }
});

test('each example of the REST reference', async () => {
  const { paths } = await ask('/openapi.json');
  const exampleOf = (path: string, name: string) =>
    paths[path].get.parameters.find((each: Json) => each.name === name).example;
  const bodyOf = (path: string) => paths[path].post.requestBody.content['application/json'].example;
  expect((await ask('/server/wallets/verify', bodyOf('/server/wallets/verify'))).result).toMatchObject({
    exists: true,
    user_id: 1,
  });
  const { verdicts } = (await ask('/wallets/verify', bodyOf('/wallets/verify'))).result;
  expect(verdicts.map(({ verdict }: Json) => verdict)).toEqual(['VERIFIED', 'VERIFIED']);
  for (const name of ['email', 'address']) {
    const search = new URLSearchParams({ [name]: exampleOf('/server/users/search', name) });
    expect((await ask(`/server/users/search?${search}`)).result.total_user).toBe(1);
  }
  expect((await ask(`/server/users/${exampleOf('/server/users/{user_id}', 'user_id')}`)).result).toBeDefined();
});
