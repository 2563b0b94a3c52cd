import { createHmac, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Webhook } from 'standardwebhooks';
import { vi } from 'vitest';
import type { Json } from './app.js';
import { PATIENCE } from './waiting.js';

/** A message that arrived, and was verified. */
export interface Received {
  readonly path: string;
  readonly id: string;
  readonly type: string;
  readonly userId: number | null;
  readonly body: Json;
  readonly headers: IncomingMessage['headers'];
}

export type Answer = (response: ServerResponse, received: Received) => void;
const ACCEPT: Answer = (response) => response.writeHead(204).end();

export type Receiver = Awaited<ReturnType<typeof startReceiver>>;

/** An HTTP server that receives webhooks, and verifies each as two receivers would. */
export async function startReceiver() {
  const received: Received[] = [];
  const faults: string[] = [];
  const answers = new Map<string, Answer>();
  const secrets = new Map<string, string>();
  const open = new Map<string, number>();
  /** The most requests that a path had at a time. */
  const mostOpen = new Map<string, number>();
  const server = createServer(async (request, response) => {
    const path = String(request.url);
    open.set(path, (open.get(path) ?? 0) + 1);
    mostOpen.set(path, Math.max(mostOpen.get(path) ?? 0, open.get(path) ?? 0));
    response.on('close', () => open.set(path, (open.get(path) ?? 0) - 1));
    request.on('error', () => undefined);
    let body = '';
    for await (const chunk of request.setEncoding('utf8')) body += chunk;
    const secret = secrets.get(path);
    try {
      if (secret !== undefined) verify(body, request.headers, secret);
    } catch (error) {
      faults.push(String(error));
    }
    const parsed = JSON.parse(body);
    const one: Received = {
      path,
      id: String(request.headers['webhook-id']),
      type: parsed.type,
      userId: parsed.data.user_id ?? null,
      body: parsed,
      headers: request.headers,
    };
    received.push(one);
    (answers.get(path) ?? ACCEPT)(response, one);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: (path: string) => `http://127.0.0.1:${port}${path}`,
    port,
    received,
    /** What could not be verified. */
    faults,
    mostOpen,
    at: (path: string) => received.filter((each) => each.path === path),
    /** The users of the messages at a path, repeated ones left out. */
    usersAt: (path: string) => {
      const seen = new Map(received.filter((each) => each.path === path).map((each) => [each.id, each.userId]));
      return [...seen.values()];
    },
    answer: (path: string, answer: Answer | null) => (answer ? answers.set(path, answer) : answers.delete(path)),
    expectSecret: (path: string, secret: string) => secrets.set(path, secret),
    until: (condition: () => boolean) => vi.waitUntil(condition, PATIENCE),
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** By the library, and by the text of the specification. Throws. */
export function verify(body: string, headers: IncomingMessage['headers'], secret: string): void {
  new Webhook(secret).verify(body, headers as Record<string, string>);
  verifyByText(body, headers, secret);
}

/**
 * Standard Webhooks 1.0, "Signature scheme": HMAC-SHA256 of id, timestamp and body, joined by full stops, with the bytes of the secret
 * behind its prefix; the header has a list of signatures, each behind its version.
 */
export function verifyByText(body: string, headers: IncomingMessage['headers'], secret: string): void {
  const [id, timestamp, given] = ['id', 'timestamp', 'signature'].map((name) => String(headers[`webhook-${name}`]));
  if (Math.abs(Date.now() / 1_000 - Number(timestamp)) > 300) throw new Error('The timestamp is too old or too new.');
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  if (key.length < 24 || key.length > 64) throw new Error('A secret has 24 to 64 bytes.');
  const wanted = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest();
  const matches = (given as string).split(' ').some((each) => {
    const [version, signature = ''] = each.split(',');
    const bytes = Buffer.from(signature, 'base64');
    return version === 'v1' && bytes.length === wanted.length && timingSafeEqual(bytes, wanted);
  });
  if (!matches) throw new Error('No signature matches.');
}
