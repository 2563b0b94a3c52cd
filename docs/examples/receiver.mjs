// Receives webhooks: it stores each message, then answers, then does the work. `npm i standardwebhooks`
// userdir webhook add --project "$APP_ID" --url https://YOUR-HOST/hooks prints the secret.
import { appendFileSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { Webhook, WebhookVerificationError } from 'standardwebhooks';

const { WEBHOOK_SECRET, HOST = '127.0.0.1', PORT = '8080', STORE = 'messages.txt', PAUSE_MS = '5000' } = process.env;
const webhook = new Webhook(WEBHOOK_SECRET);

/** Your work. If it throws, it is tried again, and later messages wait. After a crash, it may run twice for one message. */
async function handle({ type, data }) {
  console.log(`${type} ${data.user_id ?? ''}`);
}

/** On the disk: a message, and later its ID alone, when its work is done. A program with a database has a table with the ID as its key. */
const store = (entry) => appendFileSync(STORE, `\n${JSON.stringify(entry)}\t`, { flush: true });

const lines = readFileSync(STORE, { encoding: 'utf8', flag: 'a+' }).split('\n');
// A line without a tab was cut off by a crash: its message was not accepted, and comes again.
const entries = lines.filter((line) => line.endsWith('\t')).map((line) => JSON.parse(line));
const done = new Set(entries.filter(({ body }) => !body).map(({ id }) => id));
const waiting = entries.filter(({ id, body }) => body && !done.has(id));
/** Of all messages, which may come again. To take a replay, delete the file. */
const ids = new Set(entries.map(({ id }) => id));

async function work() {
  while (waiting.length > 0) {
    try {
      await handle(JSON.parse(waiting[0].body));
      store({ id: waiting[0].id });
      waiting.shift();
    } catch (error) {
      console.error(error);
      await sleep(Number(PAUSE_MS));
    }
  }
}
let working = work();

const server = createServer(async (request, response) => {
  // The text as it came, of a bounded length: JSON that was parsed and written again has another signature.
  let body = '';
  try {
    for await (const part of request.setEncoding('utf8')) if (body.length < 65_536) body += part;
    webhook.verify(body, request.headers);
    const id = request.headers['webhook-id'];
    if (!ids.has(id)) {
      store({ id, body });
      waiting.push({ id, body });
      ids.add(id);
    }
    response.writeHead(204).end();
    working = working.then(work);
  } catch (error) {
    response.writeHead(error instanceof WebhookVerificationError ? 401 : 500).end();
  }
});
server.listen(Number(PORT), HOST, () => console.log(`Listening on ${server.address().port}`));
