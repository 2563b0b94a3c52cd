import { expect, test } from 'vitest';
import { useTestApp } from '../support/app.js';

/** The start of the documentation is the front page, too. test/browser opens it. */

const app = useTestApp({ env: { GRAPHIQL: 'off' } });

test('the front page is the start of the documentation, and leads to no part that is off', async () => {
  const [front, start] = await Promise.all(['/', '/docs'].map((path) => fetch(app.url + path)));
  const html = await front?.text();
  expect(html).toBe(await start?.text());
  expect(html).toContain('npm run -s userdir -- project create --name NAME');
  expect(html).not.toContain('href="/graphql"');
});

test('the front page contacts no other host, and runs only the script of the documentation', async () => {
  const { headers } = await fetch(app.url);
  expect(headers.get('content-security-policy')).toBe(
    "default-src 'none'; connect-src 'self'; img-src 'self' data:; script-src 'self'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  );
});

test.each(['/docs/try/static/none.js', '/docs/none.js', '/dashboard/assets/none.js'])(
  '%s: a file that is not there is 404',
  async (path) => {
    for (const [method, status] of Object.entries({ GET: 404, HEAD: 404, POST: 405 })) {
      expect({ method, status: (await fetch(app.url + path, { method })).status }).toEqual({ method, status });
    }
  },
);
