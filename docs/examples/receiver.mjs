// Receives webhooks, and checks that they come from the service. `npm i standardwebhooks`
// userdir webhook add --project "$APP_ID" --url https://YOUR-HOST/hooks prints the secret.
import { createServer } from 'node:http';
import { Webhook } from 'standardwebhooks';

const { WEBHOOK_SECRET, HOST = '127.0.0.1', PORT = '8080' } = process.env;
const MAX_BYTES = 65_536;
const webhook = new Webhook(WEBHOOK_SECRET);
/** The last messages, which may come again. A program with a database keeps them there, and forgets them to take a replay. */
const handled = new Set();

/** Your work. */
function handle(type, { user_id }) {
  console.log(`${type} ${user_id ?? ''}`);
}

/** The bytes as they came: JSON that was parsed and written again has another signature. Null if there are too many. */
async function readBody(request) {
  const chunks = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += chunk.length;
    if (bytes > MAX_BYTES) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

const server = createServer(async (request, response) => {
  const body = await readBody(request).catch(() => null);
  if (body === null) return response.writeHead(413).end();
  try {
    // Checks the signature, and that the time is within five minutes of now.
    webhook.verify(body, request.headers);
  } catch {
    return response.writeHead(401).end();
  }
  // Answer first: the next message comes when this one is accepted.
  response.writeHead(204).end();
  const id = request.headers['webhook-id'];
  if (handled.has(id)) return undefined;
  handled.add(id);
  if (handled.size > 10_000) handled.delete(handled.values().next().value);
  const { type, data } = JSON.parse(body);
  return handle(type, data);
});
server.listen(Number(PORT), HOST, () => console.log(`Listening on ${server.address().port}`));
