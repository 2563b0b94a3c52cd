import { readFile } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { beforeAll, describe, expect, test } from 'vitest';
import { ERROR_CODES } from '#dist/errors.js';
import { type Json, startTestApp, type TestProject, useTestApp } from '../support/app.js';
import { ROOT } from '../support/checkout.js';
import { openEvents } from '../support/events.js';
import { sendRaw } from '../support/rest.js';

/** The documentation below /docs as the server sends it, and the addresses in it that errors name. test/browser/guides.test.ts opens it. */

const app = useTestApp({ env: { GRAPHIQL: 'on' } });
let project: TestProject;
let names: string[];
beforeAll(async () => {
  project = await app.createProject();
  names = [...new Set((await linksOf('/docs')).flatMap((link) => /^\/docs\/([a-zA-Z/]+)$/.exec(link)?.[1] ?? []))];
});

const html = { accept: 'text/html' };
const pages = new Map<string, Promise<string>>();
function pageAt(path: string): Promise<string> {
  const page =
    pages.get(path) ??
    fetch(app.url + path, { headers: html }).then(async (answer) => {
      expect([path, answer.status]).toEqual([path, 200]);
      return answer.text();
    });
  pages.set(path, page);
  return page;
}

const linksOf = async (path: string) =>
  [...(await pageAt(path)).matchAll(/(?:href|src)="([^"]*)"/g)].map(([, link = '']) => link);
const idsOf = async (path: string) => [...(await pageAt(path)).matchAll(/\bid="([^"]*)"/g)].map(([, id = '']) => id);

test('the GraphQL schema is public, that of the checkout, and is not sent twice', async () => {
  const answer = await fetch(`${app.url}/schema.graphql`);
  expect(await answer.text()).toBe(await readFile(join(ROOT, 'schema.graphql'), 'utf8'));
  expect(answer.headers.get('content-type')).toBe('text/plain; charset=utf-8');
  expect(answer.headers.get('cache-control')).toBe('no-cache');
  const again = { 'if-none-match': answer.headers.get('etag') ?? '' };
  expect((await fetch(`${app.url}/schema.graphql`, { headers: again })).status).toBe(304);
  expect((await fetch(`${app.url}/schema.graphql`, { method: 'POST' })).status).toBe(405);
});

describe('the pages', () => {
  test('are those for callers, and one of each operation of REST', async () => {
    const guides = [
      'credentials',
      'graphql',
      'client',
      'rest',
      'changes',
      'moving',
      'examples',
      'errors',
      'limits',
      'systems',
      'spec',
      'compatibility',
      'glossary',
    ];
    const { paths }: Json = await (await fetch(`${app.url}/openapi.json`)).json();
    const operations = Object.values<Json>(paths)
      .flatMap((item) => Object.values<Json>(item))
      .map(({ operationId }) => `reference/${operationId}`);
    expect(operations).toHaveLength(9);
    expect(names.toSorted()).toEqual([...guides, 'reference', ...operations].toSorted());
  });

  test('have every heading of their file, and each anchor once', async () => {
    for (const name of names.filter((each) => !/^(reference|examples)\b/.test(each))) {
      const text = await readFile(join(ROOT, `docs/${name}.md`), 'utf8');
      const titles = [...text.replaceAll(/^```.*?^```$/gms, '').matchAll(/^#+ (.+)$/gm)].map(([, title = '']) => title);
      const anchors = titles.map((title) =>
        title
          .toLowerCase()
          .replaceAll(/[^\w\- ]/g, '')
          .replaceAll(' ', '-'),
      );
      const ids = await idsOf(`/docs/${name}`);
      expect([...new Set(ids)]).toEqual(ids);
      expect(anchors.filter((anchor) => !ids.includes(anchor))).toEqual([]);
      expect(anchors.length).toBeGreaterThan(0);
    }
  });

  test('of an operation name its parameters, the fields of its body and answer, and its failures', async () => {
    const { paths, components }: Json = await (await fetch(`${app.url}/openapi.json`)).json();
    const overview = await pageAt('/docs/reference');
    for (const item of Object.values<Json>(paths)) {
      for (const { operationId, summary, parameters, requestBody, responses } of Object.values<Json>(item)) {
        const page = await pageAt(`/docs/reference/${operationId}`);
        expect(page).toContain(`<h1 id="${summary.toLowerCase().replaceAll(' ', '-')}">${summary}</h1>`);
        expect(overview).toContain(`href="/docs/reference/${operationId}"`);
        for (const { name } of parameters) expect(page + overview, name).toContain(`<td><code>${name}</code></td>`);
        const bodies = [requestBody, responses[200]].flatMap((body) => Object.values<Json>(body?.content ?? {}));
        for (const { schema } of bodies) {
          for (const field of fieldsOf(schema, components))
            expect(page, `${operationId}: ${field}`).toMatch(
              new RegExp(`<td><code>(?:[\\w.[\\]]*\\.)?${field}</code></td>`),
            );
        }
        for (const status of Object.keys(responses).filter((each) => /^4/.test(each) && each !== '429'))
          expect(page, operationId).toContain(`<td><code>${status}</code></td>`);
      }
    }
  });

  /** The names of the fields of a schema that have no fields of their own, or are not in it alone. */
  function fieldsOf(schema: Json, components: Json): string[] {
    if (schema.$ref) return fieldsOf(components.schemas[schema.$ref.split('/').at(-1)], components);
    const inner = [...(schema.anyOf ?? []), ...(schema.items ? [schema.items] : [])];
    const below = inner.flatMap((each: Json) => fieldsOf(each, components));
    const own = Object.entries<Json>(schema.properties ?? {}).flatMap(([name, field]) => {
      const its = fieldsOf(field, components);
      return its.length === 0 ? [name] : its;
    });
    return [...below, ...own];
  }

  test('have only links that lead somewhere, and load only what the service has', async () => {
    let followed = 0;
    for (const path of ['/docs', ...names.map((name) => `/docs/${name}`)]) {
      for (const link of await linksOf(path)) {
        if (link === 'data:,' || link.startsWith('https://')) continue;
        const [to = '', anchor] = link.split('#');
        const target = to === '' ? path : to;
        expect(link).toMatch(/^[/#]/);
        if (anchor === undefined) await pageAt(target);
        // Its forms are made in the browser, which test/browser looks at.
        else if (target === '/docs/try') expect(path).toBe(`/docs/reference/${anchor.split('/').at(-1)}`);
        else expect([path, link, (await idsOf(target)).includes(anchor)]).toEqual([path, link, true]);
        followed += 1;
      }
    }
    expect(followed).toBeGreaterThan(150);
  });

  test('have no pictures, no scripts in them, and no Markdown that was left over', async () => {
    for (const name of names) {
      const page = await pageAt(`/docs/${name}`);
      expect(page).not.toMatch(/<img|<script>|<style|\son\w+=|\sstyle=/);
      expect(page.replaceAll(/<pre.*?<\/pre>|<code>.*?<\/code>/gs, '')).not.toMatch(/\]\(|```|\*\*/);
    }
  });

  test('show each program of docs/examples as it is', async () => {
    const text = (await pageAt('/docs/examples')).replaceAll(/<[^>]*>/g, '');
    const plain = text
      .replaceAll('&lt;', '<')
      .replaceAll('&gt;', '>')
      .replaceAll('&quot;', '"')
      .replaceAll('&amp;', '&');
    for (const file of ['examples/backend.ts', 'examples/backend.py', 'examples/receiver.mjs', 'moving/mine.mjs']) {
      const code = await readFile(join(ROOT, 'docs', file), 'utf8');
      expect(plain).toContain(code.trim());
    }
  });

  test('are found by what stands in them: each section of the search leads to its place', async () => {
    const index: [address: string, page: string, heading: string, text: string][] = JSON.parse(
      await pageAt('/docs/search.json'),
    );
    expect(index.length).toBeGreaterThan(80);
    for (const [address] of index) {
      const [path = '', anchor] = address.split('#');
      if (anchor !== undefined) expect([address, (await idsOf(path)).includes(anchor)]).toEqual([address, true]);
    }
    const found = index.find(([, , , text]) => text.includes('Userdir-Ignored-Parameters'));
    expect(found?.[0]).toMatch(/^\/docs\//);
  });
});

describe('as files', () => {
  /** Without the headers that fetch adds. */
  function ask(path: string, headers: Record<string, string> = {}, method = 'GET') {
    return new Promise<{ status: number | undefined; headers: Json; bytes: Buffer }>((resolve, reject) => {
      request(app.url + path, { method, headers }, (answer) => {
        const parts: Buffer[] = [];
        answer.on('data', (part) => parts.push(part));
        answer.on('end', () =>
          resolve({ status: answer.statusCode, headers: answer.headers, bytes: Buffer.concat(parts) }),
        );
      })
        .on('error', reject)
        .end();
    });
  }

  test.each([
    ['/docs', 'text/html; charset=utf-8'],
    ['/docs/errors', 'text/html; charset=utf-8'],
    ['/docs/guides.css', 'text/css; charset=utf-8'],
    ['/docs/guides.js', 'text/javascript; charset=utf-8'],
    ['/docs/search.json', 'application/json; charset=utf-8'],
  ])('%s is compressed, and sent again only if it has changed', async (path, type) => {
    const plain = await ask(path);
    expect(plain).toMatchObject({ status: 200, headers: { 'content-type': type, 'cache-control': 'no-cache' } });
    expect(plain.headers['content-encoding']).toBeUndefined();
    expect(Number(plain.headers['content-length'])).toBe(plain.bytes.length);

    const packed = await ask(path, { 'accept-encoding': 'gzip, deflate, br' });
    expect(packed.headers).toMatchObject({ 'content-encoding': 'gzip', vary: 'accept-encoding' });
    expect(gunzipSync(packed.bytes).equals(plain.bytes)).toBe(true);
    expect((await ask(path, { 'accept-encoding': 'gzip;q=0, identity' })).headers['content-encoding']).toBeUndefined();

    const { etag } = plain.headers;
    expect(packed.headers.etag).toBe(etag);
    for (const known of [etag, `"other", ${etag}`, '*']) {
      const again = await ask(path, { 'if-none-match': known });
      expect([again.status, again.bytes.length, again.headers.etag]).toEqual([304, 0, etag]);
    }
    expect((await ask(path, { 'if-none-match': '"other"' })).status).toBe(200);

    const head = await ask(path, {}, 'HEAD');
    expect([head.status, head.bytes.length, head.headers.etag]).toEqual([200, 0, etag]);
    expect(head.headers['content-length']).toBe(plain.headers['content-length']);
  });

  test('pages have a policy that lets them load the files of this service only', async () => {
    for (const path of ['/docs', '/docs/graphql', '/docs/nothing'])
      expect((await ask(path, html)).headers['content-security-policy']).toBe(
        "default-src 'none'; connect-src 'self'; img-src 'self' data:; script-src 'self'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      );
  });

  test('what is not there is 404: in a browser a page that leads on, otherwise the error', async () => {
    for (const path of ['/docs/nothing', '/docs/404', '/docs/errors/nothing', '/docs/..%2fserver', '/docs/__proto__']) {
      const page = await ask(path, html);
      expect([path, page.status, page.headers['userdir-error-code']]).toEqual([path, 404, 'PATH_NOT_FOUND']);
      expect(page.bytes.toString()).toContain('There is no such page');
      const error = await ask(path);
      expect([path, error.status]).toEqual([path, 404]);
      expect(JSON.parse(error.bytes.toString())).toEqual({ error: 'There is no such page of the documentation.' });
    }
    const post = await ask('/docs/errors', {}, 'POST');
    expect([post.status, post.headers.allow]).toEqual([405, 'GET, HEAD']);
  });

  test('an address with a slash at its end leads to the page', async () => {
    const { status, headers } = await ask('/docs/errors/');
    expect([status, headers.location]).toEqual([308, '/docs/errors']);
    expect((await ask('/docs/')).status).toBe(200);
  });

  test('each page is there as Markdown, whose links lead to files of the service', async () => {
    const list = (await ask('/llms.txt')).bytes.toString();
    const listed = [...list.matchAll(/\]\((\/docs\/[\w/]+\.md)\)/g)].map(([, path = '']) => path);
    expect(listed.toSorted()).toEqual(names.map((name) => `/docs/${name}.md`).toSorted());
    for (const path of listed) {
      const { status, headers, bytes } = await ask(path);
      expect([path, status, headers['content-type']]).toEqual([path, 200, 'text/markdown; charset=utf-8']);
      expect(bytes.toString()).toMatch(/^# /m);
      const links = [...bytes.toString().matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link);
      for (const link of new Set(
        links.filter((each) => !/^(https?:|#)/.test(each)).map((each) => each.replace(/#.*/, '')),
      ))
        expect([path, link, (await ask(link, html)).status]).toEqual([path, link, 200]);
    }
  });

  test('GRAPHIQL=off leaves out the links to GraphiQL', async () => {
    expect(await linksOf('/docs')).toContain('/graphql');
    const without = await startTestApp({ env: { GRAPHIQL: 'off' } });
    for (const path of ['/docs', '/docs/rest']) {
      const page = await (await fetch(without.url + path)).text();
      expect(page).toContain('href="/docs/reference"');
      expect(page).not.toContain('href="/graphql"');
    }
    await without.close();
  });

  test('with the credentials of a demo project, pages are neither stored nor compressed; other files have none', async () => {
    const demo = await startTestApp({ demoCredentials: () => project });
    const shown = async (path: string) => {
      const answer = await fetch(demo.url + path, { headers: { 'accept-encoding': 'gzip', 'if-none-match': '*' } });
      const { headers } = answer;
      const kept = [headers.get('cache-control'), headers.get('etag'), headers.get('content-encoding')];
      return { status: answer.status, isShown: (await answer.text()).includes(project.appSecret), kept };
    };
    for (const path of ['/docs', '/docs/rest'])
      expect(await shown(path)).toEqual({ status: 200, isShown: true, kept: ['no-store', null, null] });
    for (const path of ['/docs/guides.js', '/docs/search.json', '/docs/guides.css'])
      expect(await shown(path)).toMatchObject({ status: 304, isShown: false });
    // A secret that is not valid any more is not shown.
    const revoked = await app.createProject();
    const { projects, secrets } = app.context.services;
    const withRevoked = await startTestApp({ demoCredentials: () => revoked });
    const isShown = async () =>
      (await (await fetch(`${withRevoked.url}/docs/rest`)).text()).includes(revoked.appSecret);
    expect(await isShown()).toBe(true);
    await secrets.rotateSecret(await projects.getScope(revoked.appId), { label: 'main', overlapMs: 0 });
    await expect.poll(isShown).toBe(false);
    await withRevoked.close();
    await demo.close();
    expect(await pageAt('/docs/rest')).not.toContain('name="demo"');
  });
});

describe('the address that an error names', () => {
  test('is the row of its code, for every code', async () => {
    const page = await pageAt('/docs/errors');
    for (const code of ERROR_CODES) expect(page).toMatch(new RegExp(`<tr id="${code}">\\s*<td><code>${code}</code>`));
  });

  const linkOf = (code: string, before = '') => `<${before}/docs/errors#${code}>; rel="help"`;

  test.each([
    ['NOT_FOUND', '/server/users/999999', {}],
    ['BAD_USER_INPUT', '/server/users?limit=0', {}],
    ['BAD_USER_INPUT', '/changes?limit=0', {}],
    ['BAD_USER_INPUT', '/server/users#x%', {}],
    ['UNAUTHENTICATED', '/server/users', { 'service-app-secret': 'wrong' }],
    ['PATH_NOT_FOUND', '/server/nothing', {}],
    ['PATH_NOT_FOUND', '/nothing', {}],
  ])('stands in the header Link over REST: %s of %s', async (code, path, headers) => {
    const given = Object.entries({ host: 'userdir', ...project.credentials, ...headers, connection: 'close' });
    const lines = [`GET ${path} HTTP/1.1`, ...given.map(([name, value]) => `${name}: ${value}`), '', ''];
    const answer = await sendRaw(app.url, Buffer.from(lines.join('\r\n')));
    expect(answer.headers).toMatchObject({ 'userdir-error-code': code, link: linkOf(code) });
  });

  test('is there for what is not HTTP, too, and not with a success', async () => {
    const answer = await sendRaw(app.url, Buffer.from('HELLO\r\n\r\n'));
    expect(answer.headers['link']).toBe(linkOf('BAD_USER_INPUT'));
    expect((await project.rest('/server/users')).headers.get('link')).toBeNull();
    expect((await project.graphql('{ userCount }')).headers.get('link')).toBeNull();
  });

  test('is of the code, where the contract has another status', async () => {
    const { secrets, projects } = app.context.services;
    const scope = await projects.getScope(project.appId);
    const { appSecret } = await secrets.addSecret(scope, { label: 'reader', scopes: ['read'], expiresInMs: null });
    const headers = { 'service-app-id': project.appId, 'service-app-secret': appSecret };
    const answer = await fetch(`${app.url}/server/users/1`, { method: 'DELETE', headers });
    expect([answer.status, answer.headers.get('link')]).toEqual([401, linkOf('FORBIDDEN')]);
  });

  test('stands in every GraphQL error, and in the header Link where the request failed as a whole', async () => {
    const partial = await project.graphql('{ userCount user(id: "x") { id } }');
    expect(partial.errors?.[0]?.extensions).toMatchObject({ docs: '/docs/errors#BAD_USER_INPUT', argument: 'id' });
    expect([partial.status, partial.headers.get('link')]).toEqual([200, null]);
    const ask = (query: string, headers: Record<string, string> = {}) =>
      fetch(`${app.url}/graphql`, {
        method: 'POST',
        headers: { ...project.credentials, 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ query }),
      });
    for (const [code, query, headers] of [
      ['BAD_USER_INPUT', '{ nothing }', { accept: 'application/graphql-response+json' }],
      ['BAD_USER_INPUT', 'query ($n: Int!) { users(first: $n) { totalCount } }', {}],
      ['UNAUTHENTICATED', '{ userCount }', { 'service-app-secret': 'wrong' }],
    ] as const) {
      const answer = await ask(query, headers);
      expect([answer.ok, answer.headers.get('link')]).toEqual([false, linkOf(code)]);
      expect(((await answer.json()) as Json).errors[0].extensions.docs).toBe(`/docs/errors#${code}`);
    }
  });

  test('stands in the errors of a subscription', async () => {
    const stream = await openEvents(`${app.url}/graphql`, {
      method: 'POST',
      headers: { ...project.credentials, 'content-type': 'application/json' },
      body: JSON.stringify({ query: 'subscription { changes(after: "none") { cursor } }' }),
    });
    const [refused] = await stream.ended();
    const { code, docs } = JSON.parse(refused?.data ?? '').errors[0].extensions;
    expect(docs).toBe(`/docs/errors#${code}`);
  });

  test('begins with PUBLIC_URL where that is set', async () => {
    const known = await startTestApp({ ownDatabase: true, env: { PUBLIC_URL: 'https://users.example.com' } });
    const own = await known.createProject();
    const missing = await own.rest('/server/users/1');
    expect(missing.headers.get('link')).toBe(linkOf('NOT_FOUND', 'https://users.example.com'));
    const { errors } = await own.graphql('{ user(id: "x") { id } }');
    expect(errors?.[0]?.extensions).toMatchObject({ docs: 'https://users.example.com/docs/errors#BAD_USER_INPUT' });
    await known.close();
  });
});
