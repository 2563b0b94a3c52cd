import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { useTestApp } from '../support/app.js';

/** The front page, as it is sent; what it does in a browser is seen in test/browser. */

const app = useTestApp({ env: { GRAPHIQL: 'off', TRUST_PROXY: 'on' } });

/** The page by any Host, which fetch would not send. */
function frontPage(headers: Record<string, string>): Promise<{ status: number | undefined; html: string }> {
  return new Promise((resolve, reject) => {
    request(app.url, { headers }, (answer) => {
      text(answer).then((html) => resolve({ status: answer.statusCode, html }), reject);
    })
      .on('error', reject)
      .end();
  });
}

test('without a demo project it has placeholders in both calls, and says how to come by what they stand for', async () => {
  const { status, html } = await frontPage({});
  expect(status).toBe(200);
  expect(html.match(/service-app-id: &lt;APP_ID&gt;/g)).toHaveLength(2);
  expect(html.match(/service-app-secret: &lt;APP_SECRET&gt;/g)).toHaveLength(2);
  expect(html).toContain('userdir project create --name NAME');
});

test('where GraphiQL is off it leads nobody there', async () => {
  const { html } = await frontPage({});
  expect(html).not.toContain('href="/graphql"');
  expect(html).toContain('the explorer is off');
});

test('its calls go where it was asked for, through a proxy too', async () => {
  const { html } = await frontPage({ host: 'users.example.com:8443', 'x-forwarded-proto': 'https' });
  expect(html).toContain("'https://users.example.com:8443/server/users?limit=2'");
  expect(html).toContain("'https://users.example.com:8443/graphql'");
});

test.each([`a'$(id)`, 'a"<b>', 'a b', 'a&b'])(
  'what a Host %j would do in a shell or a page is not repeated',
  async (host) => {
    const { html } = await frontPage({ host });
    expect(html).toContain("'http://127.0.0.1:4000/graphql'");
    expect(html).not.toContain(host);
  },
);

test('nor is a scheme that is none', async () => {
  const { html } = await frontPage({ host: 'users.example.com', 'x-forwarded-proto': "';id;'" });
  expect(html).toContain("'http://users.example.com/graphql'");
});

test('it is not stored, asks nobody else, and runs its own script alone', async () => {
  const { headers } = await fetch(app.url);
  expect(headers.get('cache-control')).toBe('no-store');
  expect(headers.get('content-security-policy')).toMatch(
    /^default-src 'none'; connect-src 'self'; img-src 'self' data:; script-src 'sha256-\S+'; style-src 'sha256-\S+'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'$/,
  );
});
