import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { ROOT } from '../support/checkout.js';
import { requireDocumented } from '../support/openapi.js';
import { idOf, SIX_ROUTES, verify } from '../support/rest.js';

/** The OpenAPI document of the REST interface, and its documentation page. */

// The first user of a database has the id 1.
const app = useTestApp({ ownDatabase: true });
let project: TestProject;
let document: Json;
beforeAll(async () => {
  project = await app.createProject();
  const accounts = [{ network: 'stellar', public_key: stellarAddress(1) }];
  await project.addUsers({ auth_method: 'email', auth_value: 'ada@example.com', accounts });
  document = await (await fetch(`${app.url}/openapi.json`)).json();
});

function operations(): { name: string; operation: Json }[] {
  return Object.entries<Json>(document.paths).flatMap(([path, item]) =>
    Object.entries<Json>(item).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, operation })),
  );
}

const find = (name: string) => operations().find((each) => each.name === name)?.operation;

describe('/openapi.json', () => {
  test('is OpenAPI 3.1, and public', async () => {
    const answer = await fetch(`${app.url}/openapi.json`);
    expect(answer.headers.get('content-type')).toMatch(/^application\/json/);
    expect(document).toMatchObject({
      openapi: '3.1.0',
      info: { title: expect.any(String), version: expect.any(String) },
    });
  });

  test('is as it was reviewed: what changes it changes the file beside this test', async () => {
    const { info, ...rest } = document;
    const shown = JSON.stringify({ ...rest, info: { ...info, version: 'this one' } }, null, 1);
    await expect(`${shown}\n`).toMatchFileSnapshot('openapi.json');
  });

  test('lists exactly the six routes, the verification of many wallets, users for a copy and the feed of changes', () => {
    expect(
      operations()
        .map(({ name }) => name)
        .sort(),
    ).toEqual([...SIX_ROUTES.map(({ route }) => route), 'GET /users', 'GET /changes', 'POST /wallets/verify'].sort());
  });

  test('docs/rest.md lists the same routes', async () => {
    const page = await readFile(join(ROOT, 'docs/rest.md'), 'utf8');
    const listed = [...page.matchAll(/^\| `((?:GET|POST|DELETE) [^`]+)` \|/gm)].map(([, route]) => route);
    expect(listed.sort()).toEqual(
      operations()
        .map(({ name }) => name)
        .sort(),
    );
  });

  test('has the two credential schemes on every route', () => {
    const { securitySchemes } = document.components;
    expect(Object.values<Json>(securitySchemes)).toMatchObject([
      { type: 'apiKey', in: 'header', name: 'service-app-id' },
      { type: 'apiKey', in: 'header', name: 'service-app-secret' },
      { type: 'http', scheme: 'basic' },
    ]);
    expect(document.security).toEqual([{ basic: [] }, { appId: [], appSecret: [] }]);
    for (const { operation } of operations()) expect(operation.security).toBeUndefined();
  });

  const filters = ['start_date', 'end_date', 'login_method'];
  test.each([
    ['GET /server/users', 'query', [...filters, 'page', 'limit']],
    ['GET /server/users/count', 'query', filters],
    ['GET /server/users/search', 'query', ['email', 'address']],
    ['GET /server/users/{user_id}', 'path', ['user_id']],
    ['DELETE /server/users/{user_id}', 'path', ['user_id']],
    ['GET /users', 'query', ['ids']],
  ])('%s has exactly these parameters', (route, place, names) => {
    // The idempotency key is an extension of the contract, so it is a header.
    const parameters = find(route).parameters.filter((each: Json) => each.in !== 'header');
    expect(parameters.map((each: Json) => each.name)).toEqual(names);
    for (const each of parameters) {
      expect(each).toMatchObject({
        in: place,
        required: place === 'path' || names[0] === 'ids',
        description: expect.any(String),
      });
    }
  });

  test('names the values and the defaults of parameters', () => {
    const schemaOf = (route: string, parameter: string) =>
      find(route).parameters.find(({ name }: Json) => name === parameter).schema;
    const [several, text] = schemaOf('GET /server/users', 'login_method').anyOf;
    expect(several.items.enum).toEqual(['email', 'passkey', 'wallet', 'socials']);
    expect('wallet,socials').toMatch(new RegExp(text.pattern));
    expect('wallet,').not.toMatch(new RegExp(text.pattern));
    expect(schemaOf('GET /changes', 'types').anyOf[0].items.enum).toContain('user.merged');
    expect(['page', 'limit'].map((name) => schemaOf('GET /server/users', name).default)).toEqual([1, 10]);
    expect(schemaOf('GET /changes', 'limit').default).toBe(100);
  });

  test('says of every ID that is a number that it has 64 bits, because IDs after a restore do not fit into 32', () => {
    const found: unknown[] = [];
    const look = (value: Json, name: string) => {
      if (typeof value !== 'object' || value === null) return;
      if (value.type === 'integer' && /^(?:.*_)?ids?$|^merged_into$/.test(name)) found.push([name, value.format]);
      const parts = ['anyOf', 'items', 'schema'];
      for (const [key, part] of Object.entries<Json>(value))
        look(part, value.name ?? (parts.includes(key) || /^\d+$/.test(key) ? name : key));
    };
    look(document, '');
    const names = ['id', 'ids', 'merged_into', 'user_id'];
    expect([...new Set(found.map(String))].sort()).toEqual(names.map((name) => `${name},int64`));
  });

  test('only the single-user routes have a 404', () => {
    const having404 = operations().filter(({ operation }) => '404' in operation.responses);
    expect(having404.map(({ name }) => name.split(' ')[1])).toEqual(Array(2).fill('/server/users/{user_id}'));
    for (const { operation } of operations()) expect(operation.responses).toHaveProperty('401');
  });

  test('passes the strictest rules of the linter', async () => {
    const config = await createConfig({
      extends: ['recommended-strict'],
      // The service is unlicensed (package.json).
      rules: { 'info-license': 'off' },
    });
    const problems = await lintFromString({ source: JSON.stringify(document), config });
    expect(problems.map(({ ruleId, message, location }) => [ruleId, message, location[0]?.pointer])).toEqual([]);
  });

  test('has an example for every parameter, body, answer and header', () => {
    const { components } = document;
    const resolve = (value: Json) =>
      value.$ref ? components[value.$ref.split('/')[2]][value.$ref.split('/')[3]] : value;
    for (const { name, operation } of operations()) {
      for (const parameter of operation.parameters ?? []) expect(parameter, name).toHaveProperty('example');
      const answers = Object.values<Json>(operation.responses).map(resolve);
      const contents = [operation.requestBody, ...answers].filter((each) => each !== undefined);
      for (const { content } of contents) {
        for (const { example, examples } of Object.values<Json>(content)) {
          expect(example ?? Object.keys(examples ?? {}).length, name).toBeTruthy();
        }
      }
      for (const { headers } of answers) {
        expect(Object.keys(headers), name).toContain('X-Request-Id');
        for (const header of Object.values<Json>(headers)) expect(resolve(header), name).toHaveProperty('example');
      }
      expect(Object.keys(operation.responses), name).toEqual(
        expect.arrayContaining(['200', '400', '401', '429', '500', '503', 'default']),
      );
    }
    expect(components.headers).toHaveProperty(['Retry-After']);
  });

  test('has no pattern for a text that may be left out: Postman would make a value that fits it, and send that', () => {
    for (const { name, operation } of operations())
      for (const { name: parameter, required, schema } of operation.parameters)
        if (!required) expect([name, parameter, schema.pattern]).toEqual([name, parameter, undefined]);
    const key = find('DELETE /server/users/{user_id}').parameters.find(({ name }: Json) => name === 'Idempotency-Key');
    expect(key).toMatchObject({ description: expect.any(String), example: expect.any(String), required: false });
  });

  test('names the headers that a request may have', () => {
    const headers = (name: string) =>
      find(name).parameters.flatMap((each: Json) => (each.in === 'header' ? [[each.name, each.required]] : []));
    const common = ['X-Request-Id'];
    for (const { name } of operations()) {
      const own = { 'GET /changes': ['Last-Event-ID'], 'DELETE /server/users/{user_id}': ['Idempotency-Key'] }[name];
      expect(headers(name), name).toEqual([...(own ?? []), ...common].map((each) => [each, false]));
    }
  });

  test('describes the real answers, and an answer that differs fails the check', async () => {
    const id = await idOf(project, 'ada@example.com');
    const found = await project.rest(`/server/users/${id}`);
    expect(found.status).toBe(200);
    expect((await verify(project, { address: stellarAddress(1) })).body.result.exists).toBe(true);

    const path = `/server/users/${id}`;
    const answered = { method: 'GET', path, status: 200, headers: found.headers, body: found.body };
    const require = (change: object) => () => requireDocumented(() => document, { ...answered, ...change });
    expect(require({})).not.toThrow();
    const { login_count, ...incomplete } = found.body.result;
    expect(require({ body: { ...found.body, result: incomplete } })).toThrow('login_count');
    expect(require({ body: { ...found.body, result: { ...found.body.result, secret: 1 } } })).toThrow('additional');
    expect(require({ body: { message: '', result: { ...found.body.result, created_at: 'today' } } })).toThrow(
      'date-time',
    );
    const headers = new Headers(found.headers);
    expect(require({ status: 404, headers })).toThrow('Userdir-Error-Code');
    headers.set('userdir-error-code', 'NOT_FOUND');
    expect(require({ status: 404, headers })).toThrow('Link');
    headers.set('link', '</docs/errors#NOT_FOUND>; rel="help"');
    expect(require({ status: 404, headers })).toThrow('error');
    expect(require({ status: 418, headers, body: { message: '' } })).toThrow('error');
    expect(require({ status: 401, headers, body: { error: '' } })).toThrow('WWW-Authenticate');
    expect(require({ headers: new Headers({ 'content-type': 'application/json' }) })).toThrow('X-Request-Id');
    expect(require({ path: '/server/nothing' })).toThrow('no such operation');
    // `rest` itself checks each answer against the document.
    for (const { path, init } of SIX_ROUTES) await project.rest(path, init);
  });

  test('contains no credentials and no address of this machine', () => {
    expect(JSON.stringify(document)).not.toMatch(/app_[0-9a-f]{24}|uds_|127\.0\.0\.1|localhost/);
  });
});

describe('/docs/try', () => {
  test('prefills neither optional parameters nor the user to delete, but describes an example', async () => {
    const shown: Json = await (await fetch(`${app.url}/docs/try/json`)).json();
    for (const { name, operation } of operations()) {
      const [method = '', path = ''] = name.split(' ');
      for (const [index, { description, example, required }] of (operation.parameters ?? []).entries()) {
        const there = shown.paths[path][method.toLowerCase()].parameters[index];
        const filledIn = required && method !== 'DELETE';
        expect(there.example).toBe(filledIn ? example : undefined);
        expect(there.description).toBe(filledIn ? description : `${description} Example: \`${example}\``);
      }
    }
  });

  test('has the width of a phone and a way back to the documentation', async () => {
    const html = await (await fetch(`${app.url}/docs/try`)).text();
    expect(html).toContain('<meta name="viewport" content="width=device-width, initial-scale=1">');
    expect(html).toContain('<a href="/docs">Documentation</a>');
  });

  test('connects to the service only, and cannot be framed by another page', async () => {
    const { headers } = await fetch(`${app.url}/docs/try`);
    const policy = headers.get('content-security-policy');
    expect(policy).toContain("default-src 'none'; connect-src 'self';");
    expect(policy).toContain("script-src 'self';");
    expect(policy).toContain("frame-ancestors 'none'");
  });

  test('has assets that are not stored by caches', async () => {
    const asset = await fetch(`${app.url}/docs/try/static/swagger-ui.css`);
    expect([asset.status, asset.headers.get('cache-control')]).toEqual([200, 'no-store']);
    expect(await asset.text()).toContain('.swagger-ui');
  });

  test('opens at the operation that its address names, and sends no credentials of the browser', async () => {
    const script = await (await fetch(`${app.url}/docs/try/static/swagger-initializer.js`)).text();
    expect(script).toMatch(/"deepLinking":true/);
    expect(script).toMatch(/"tryItOutEnabled":true/);
    expect(script).toContain("credentials: 'omit'");
  });
});
