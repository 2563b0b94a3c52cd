import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { useTestApp } from '../support/app.js';

/** The front page as the server sends it. Its behaviour in a browser is tested in test/browser. */

const app = useTestApp({ env: { GRAPHIQL: 'off', TRUST_PROXY: 'on' } });

/** Requests the page with any Host header, which fetch cannot do. */
function frontPage(headers: Record<string, string>): Promise<{ status: number | undefined; html: string }> {
  return new Promise((resolve, reject) => {
    request(app.url, { headers }, (answer) => {
      text(answer).then((html) => resolve({ status: answer.statusCode, html }), reject);
    })
      .on('error', reject)
      .end();
  });
}

test('without a demo project, both example calls have placeholders, and the page shows how to create a project', async () => {
  const { status, html } = await frontPage({});
  expect(status).toBe(200);
  expect(html.match(/service-app-id: &lt;APP_ID&gt;/g)).toHaveLength(2);
  expect(html.match(/service-app-secret: &lt;APP_SECRET&gt;/g)).toHaveLength(2);
  expect(html).toContain('npm run -s userdir -- project create --name NAME');
});

test('when GraphiQL is off, the page does not link to it', async () => {
  const { html } = await frontPage({});
  expect(html).not.toContain('href="/graphql"');
  expect(html).toContain('the explorer is off');
});

test('the example calls use the host and protocol of the request, also behind a proxy', async () => {
  const { html } = await frontPage({ host: 'users.example.com:8443', 'x-forwarded-proto': 'https' });
  expect(html).toContain("'https://users.example.com:8443/server/users?limit=2'");
  expect(html).toContain("'https://users.example.com:8443/graphql'");
});

test.each([`a'$(id)`, 'a"<b>', 'a b', 'a&b'])(
  'the Host header %j, unsafe in a shell or a page, is not used',
  async (host) => {
    const { html } = await frontPage({ host });
    expect(html).toContain("'http://127.0.0.1:4000/graphql'");
    expect(html).not.toContain(host);
  },
);

test('an invalid protocol in X-Forwarded-Proto is not used', async () => {
  const { html } = await frontPage({ host: 'users.example.com', 'x-forwarded-proto': "';id;'" });
  expect(html).toContain("'http://users.example.com/graphql'");
});

test('the page is not cached, contacts no other host, and runs only its own script', async () => {
  const { headers } = await fetch(app.url);
  expect(headers.get('cache-control')).toBe('no-store');
  expect(headers.get('content-security-policy')).toMatch(
    /^default-src 'none'; connect-src 'self'; img-src 'self' data:; script-src 'sha256-\S+'; style-src 'sha256-\S+'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'$/,
  );
});

test.each(['/docs/reference/static/none.js', '/docs/none.js', '/dashboard/assets/none.js'])(
  '%s: a file that is not there is 404',
  async (path) => {
    for (const [method, status] of Object.entries({ GET: 404, HEAD: 404, POST: 405 })) {
      expect({ method, status: (await fetch(app.url + path, { method })).status }).toEqual({ method, status });
    }
  },
);
