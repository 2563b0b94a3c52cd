import { connect } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect } from 'vitest';
import { stellarAddress } from './addresses.js';
import type { Json, RestAnswer, TestProject } from './app.js';

/** A valid request for each of the six REST routes; it may match no user. */
export const SIX_ROUTES = [
  { route: 'GET /server/users', path: '/server/users', init: {} },
  { route: 'GET /server/users/count', path: '/server/users/count', init: {} },
  { route: 'GET /server/users/search', path: '/server/users/search?email=nobody@example.com', init: {} },
  { route: 'GET /server/users/{user_id}', path: '/server/users/1', init: {} },
  { route: 'DELETE /server/users/{user_id}', path: '/server/users/1', init: { method: 'DELETE' } },
  {
    route: 'POST /server/wallets/verify',
    path: '/server/wallets/verify',
    init: jsonPost({ address: stellarAddress(0) }),
  },
] as const;

export function jsonPost(body: unknown): { method: string; headers: Record<string, string>; body: string } {
  return { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
}

/** The header of HTTP Basic for `APP_ID:APP_SECRET`. */
export const basic = (credentials: string) => ({
  authorization: `Basic ${Buffer.from(credentials).toString('base64')}`,
});

/** Wallet verification with any JSON value as its body. */
export function verify(project: TestProject, body: unknown): Promise<RestAnswer> {
  return project.rest('/server/wallets/verify', jsonPost(body));
}

/** The auth values of the users of an answer, in its order. */
export function values(answer: RestAnswer): string[] {
  return answer.body.result.users.map((user: Json) => user.auth_value);
}

/** The id of the project's only user with this auth value. */
export async function idOf(project: TestProject, authValue: string): Promise<number> {
  const answer = await project.rest('/server/users?limit=100');
  expect(answer).toMatchObject({ status: 200 });
  const found = answer.body.result.users.filter((user: Json) => user.auth_value === authValue);
  expect(found).toHaveLength(1);
  return found[0].id;
}

/** Expects the only error form: the status, and a body with exactly one text that reveals no internals. */
export function expectError(answer: Pick<RestAnswer, 'status' | 'body'>, status: number): string {
  expect(answer).toMatchObject({ status, body: { error: expect.any(String) } });
  expect(Object.keys(answer.body)).toEqual(['error']);
  const { error } = answer.body;
  expect(error).not.toBe('');
  // The quoted input may be anything; the rest of the message may not.
  expect(error.replace(/: got .*?, expected /gs, '')).not.toMatch(
    /\n|node_modules|\.[jt]s\b|call stack|prisma|postgres|pglite/i,
  );
  return error;
}

export interface RawAnswer {
  status: number;
  /** Keyed by lower-case name. */
  headers: Record<string, string>;
  body: Json;
}

/** Writes raw bytes to the server, and reads the answer until the server closes the connection. */
export async function sendRaw(url: string, bytes: string | Buffer): Promise<RawAnswer> {
  return parseAnswer(await sendPieces(url, [bytes]));
}

/** The same with pieces, each in a packet of its own, and waits after each; returns all answers as text. */
export async function sendPieces(
  url: string,
  pieces: (string | Buffer)[],
  between: () => Promise<unknown> = nextTurn,
): Promise<string> {
  const { hostname, port } = new URL(url);
  const chunks: Buffer[] = [];
  let written = Promise.resolve();
  await new Promise<void>((resolve, reject) => {
    const write = async () => {
      for (const piece of pieces) {
        socket.write(piece);
        await between();
      }
    };
    const socket = connect({ port: Number(port), host: hostname, noDelay: true }, () => {
      written = write().catch(reject);
    });
    socket.setTimeout(60_000, () => socket.destroy(new Error('The server did not answer.')));
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    socket.on('error', (error) => (chunks.length > 0 ? resolve() : reject(error)));
    socket.on('close', () => resolve());
  });
  // An answer may come before the last piece is sent. What `between` does must not go on in the next test.
  await written;
  return Buffer.concat(chunks).toString();
}

export function parseAnswer(answer: string): RawAnswer {
  const [head = '', ...rest] = answer.split('\r\n\r\n');
  const [statusLine = '', ...lines] = head.split('\r\n');
  const text = rest.join('\r\n\r\n');
  return {
    status: Number(statusLine.split(' ')[1]),
    headers: Object.fromEntries(
      lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
    ),
    body: text === '' ? undefined : JSON.parse(text),
  };
}
