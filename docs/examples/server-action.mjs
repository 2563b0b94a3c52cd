// What a server action of a web framework does, without the framework: a form whose page never sees the App Secret.
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { createClient } from 'userdir/client';

const { USERDIR_URL = 'http://127.0.0.1:4000', APP_ID, APP_SECRET, PORT = '3000' } = process.env;
const client = createClient({ url: USERDIR_URL, appId: APP_ID, appSecret: APP_SECRET });

/** What the person may read. Here the password would be checked. Each form has a key: two presses of its button are one login. */
async function signIn(form) {
  const login = { authMethod: 'email', authValue: form.get('email') ?? '' };
  const key = { idempotencyKey: form.get('key') || undefined };
  const { created, user, code, argument } = await client.logins.record(login, key).catch((error) => error);
  if (user) return created ? 'Welcome!' : `Welcome back: login ${user.loginCount}.`;
  if (code === 'BANNED') return 'This login is not possible.';
  return argument === 'input.authValue' ? 'This is not an email address.' : 'That did not work. Please try again.';
}

const server = createServer(async (request, response) => {
  const isForm = request.method === 'POST' && Number(request.headers['content-length']) <= 4_096;
  const words = isForm ? await signIn(new URLSearchParams(await text(request))) : '';
  response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(`<!doctype html><title>Sign in</title>
<p role="status">${words}</p><form method="post"><input name="key" type="hidden" value="${crypto.randomUUID()}">
<label>Email <input name="email" type="email" required></label> <button>Sign in</button></form>`);
}).listen(Number(PORT), '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
