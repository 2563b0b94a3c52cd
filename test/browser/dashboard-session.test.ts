import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { THE_OPERATOR } from '#dist/domain/operators.js';
import { useTestApp } from '../support/app.js';
import { hasBrowser, useBrowser } from '../support/browser.js';

/** What a browser does with the session of the dashboard: rules that it applies, and not the service. */
describe.skipIf(!hasBrowser)('in a real browser', () => {
  const app = useTestApp();
  const browser = useBrowser();

  /** What a page of the service does: it logs in by a token, or asks who it is. */
  const send = (page: Page, path: string, body: object) =>
    page.evaluate(
      async (sent) => {
        const response = await fetch(sent.path, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: sent.body,
        });
        return [response.status, response.status === 204 ? '' : await response.text()];
      },
      { path, body: JSON.stringify(body) },
    );
  const ME = { query: '{ me { name } }' };

  test('a single sign-on that failed says why, and the address forgets it', async () => {
    const page = await browser.newPage();
    await page.goto(`${app.url}/dashboard#sso=denied`);
    await page.getByText('Your account has no role here.').waitFor();
    expect(page.url()).toBe(`${app.url}/dashboard`);
    await page.close();
  });

  test.each(['127.0.0.1', 'localhost'])(
    'a session works over plain HTTP as %s, and no page of another site has it',
    async (name) => {
      const origin = app.url.replace('127.0.0.1', name);
      const operator = `browser-${name}`;
      await app.context.services.operators.addOperator(THE_OPERATOR, operator, 'viewer');
      const { token } = await app.context.services.operators.createLink(THE_OPERATOR, operator);
      const context = await browser.newContext();
      const page = await context.newPage();
      await page.goto(`${origin}/dashboard`);
      expect(await send(page, '/dashboard/session', { token })).toEqual([204, '']);
      expect(await send(page, '/dashboard/graphql', ME)).toEqual([
        200,
        JSON.stringify({ data: { me: { name: operator } } }),
      ]);
      const cookies = await context.cookies(origin);
      expect(cookies).toMatchObject([{ httpOnly: true, sameSite: 'Strict', secure: false, path: '/' }]);
      expect(await page.evaluate('document.cookie')).toBe('');

      // Of another site: 127.0.0.1 and localhost are two.
      const evil = createServer((_request, response) => {
        response.setHeader('content-type', 'text/html');
        response.end(`<form method="post" enctype="text/plain" action="${origin}/dashboard/graphql"><input name='{"query":"mutation{logOut}","x":"' value='"}'></form>
        <iframe src="${origin}/dashboard"></iframe>`);
      });
      await new Promise<void>((resolve) => evil.listen(0, resolve));
      const other = name === 'localhost' ? '127.0.0.1' : 'localhost';
      try {
        const attack = await context.newPage();
        await attack.goto(`http://${other}:${(evil.address() as AddressInfo).port}/`);
        // The frame is refused: what is shown there is the browser's own page.
        await expect.poll(() => attack.frames()[1]?.url()).toMatch(/^chrome-error:/);
        const read = await attack.evaluate(
          (url) =>
            fetch(url, {
              method: 'POST',
              credentials: 'include',
              headers: { 'content-type': 'application/json' },
              body: JSON.stringify({ query: 'mutation { logOut }' }),
            }).then(
              () => 'answered',
              () => 'refused',
            ),
          `${origin}/dashboard/graphql`,
        );
        expect(read).toBe('refused');
        const [posted] = await Promise.all([
          attack.waitForResponse(`${origin}/dashboard/graphql`),
          attack.evaluate('document.forms[0].submit()'),
        ]);
        expect([401, 403]).toContain(posted.status());
        expect((await send(page, '/dashboard/graphql', ME))[0]).toBe(200);
      } finally {
        evil.close();
        await context.close();
      }
    },
  );
});
