// Receives webhooks: verifies each message, stores it, and then answers. `userdir webhook add` prints WEBHOOK_SECRET.
import { appendFileSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { UserdirError, verifyWebhook } from 'userdir/client';

const { WEBHOOK_SECRET = '', HOST = '127.0.0.1', PORT = '8080', STORE = 'messages.txt' } = process.env;
// A line without a tab was cut off by a crash: its message was not accepted, and comes again.
const lines = readFileSync(STORE, { encoding: 'utf8', flag: 'a+' }).split('\n');
const ids = new Set(lines.filter((line) => line.endsWith('\t')).map((line) => JSON.parse(line).id));

const server = createServer(async (request, response) => {
  try {
    let body = '';
    for await (const part of request.setEncoding('utf8')) if (body.length <= 65_536) body += part;
    const message = await verifyWebhook(body, request.headers, WEBHOOK_SECRET.split(' '));
    // Your work begins from what is stored: a crash after the answer loses nothing.
    if (!ids.has(message.id)) appendFileSync(STORE, `\n${JSON.stringify(message)}\t`, { flush: true });
    ids.add(message.id);
    response.writeHead(204).end();
  } catch (error) {
    response.writeHead(error instanceof UserdirError ? 401 : 500).end();
  }
});
server.listen(Number(PORT), HOST, () => console.log(`Listening on ${server.address().port}`));
