import { connect } from 'node:net';
import { expect } from 'vitest';
import { stellarAddress } from './addresses.js';
import type { Json, RestAnswer, TestProject } from './app.js';

/** The six routes of the REST interface, each as a request that is right except that it may find nobody. */
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

/** Wallet verification with any JSON value as its body. */
export function verify(project: TestProject, body: unknown): Promise<RestAnswer> {
  return project.rest('/server/wallets/verify', jsonPost(body));
}

/** The auth values of the users of an answer, in its order. */
export function values(answer: RestAnswer): string[] {
  return answer.body.result.users.map((user: Json) => user.auth_value);
}

/** The id of the project's only user of this auth value. */
export async function idOf(project: TestProject, authValue: string): Promise<number> {
  const { body } = await project.rest('/server/users?limit=100');
  const found = body.result.users.filter((user: Json) => user.auth_value === authValue);
  expect(found).toHaveLength(1);
  return found[0].id;
}

/** An error in its one form: the status, and a body of exactly one text that tells nothing of the inside. */
export function expectError(answer: Pick<RestAnswer, 'status' | 'body'>, status: number): string {
  expect(answer).toMatchObject({ status, body: { error: expect.any(String) } });
  expect(Object.keys(answer.body)).toEqual(['error']);
  const { error } = answer.body;
  expect(error).not.toBe('');
  // What arrived may be anything; what the service says about it may not.
  expect(error.replace(/: got .*?, expected /gs, '')).not.toMatch(
    /\n|node_modules|\.[jt]s\b|call stack|prisma|postgres|pglite/i,
  );
  return error;
}

export interface RawAnswer {
  status: number;
  /** By lower-case name. */
  headers: Record<string, string>;
  body: Json;
}

/** Writes bytes to the server as they are, and reads its answer until it closes the connection. */
export async function sendRaw(url: string, bytes: string | Buffer): Promise<RawAnswer> {
  const { hostname, port } = new URL(url);
  const chunks: Buffer[] = [];
  await new Promise<void>((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => socket.write(bytes));
    socket.setTimeout(10_000, () => socket.destroy(new Error('The server did not answer.')));
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    socket.on('error', (error) => (chunks.length > 0 ? resolve() : reject(error)));
    socket.on('close', () => resolve());
  });
  const [head = '', ...rest] = Buffer.concat(chunks).toString().split('\r\n\r\n');
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
