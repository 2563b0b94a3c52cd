// What a server action of a web framework does, without the framework: a form whose page never sees the App Secret. Needs no package.
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';

const { USERDIR_URL = 'http://127.0.0.1:4000', APP_ID, APP_SECRET, PORT = '3000' } = process.env;
const headers = { 'service-app-id': APP_ID, 'service-app-secret': APP_SECRET, 'content-type': 'application/json' };
const MUTATION = `mutation ($input: RecordLoginInput!, $key: String) {
  recordLogin(input: $input, idempotencyKey: $key) { created user { loginCount } } }`;

/** Runs on the server. Returns what the person may read, and never a message of the service. */
async function signIn(form) {
  const input = { authMethod: 'email', authValue: form.get('email') ?? '' };
  const body = JSON.stringify({ query: MUTATION, variables: { input, key: form.get('key') || null } });
  const response = await fetch(`${USERDIR_URL}/graphql`, { method: 'POST', headers, body });
  const { data, errors } = await response.json();
  if (errors === undefined) {
    const { created, user } = data.recordLogin;
    return created ? 'Welcome!' : `Welcome back: login ${user.loginCount}.`;
  }
  const [{ message, extensions }] = errors;
  console.error(`${extensions.code}: ${message}`);
  if (extensions.code === 'BANNED') return 'This login is not possible.';
  if (extensions.argument === 'input.authValue') return 'This is not an email address.';
  return 'That did not work now. Please try again.';
}

/** A key for each form that is shown: two presses of its button are one login. Here the password would be checked. */
const page = (words) => `<!doctype html><html lang="en"><title>Sign in</title><p role="status">${words}</p>
<form method="post"><input name="key" type="hidden" value="${crypto.randomUUID()}">
<label>Email <input name="email" type="email" required></label> <button>Sign in</button></form></html>`;

const server = createServer(async (request, response) => {
  const isForm = request.method === 'POST' && Number(request.headers['content-length']) <= 4_096;
  const words = isForm ? await signIn(new URLSearchParams(await text(request))) : '';
  response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(page(words));
});
server.listen(Number(PORT), '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
