import { type AddressInfo, createServer, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { keepConnection } from '#dist/db/connection.js';

test('a connection that is still being made is given up when it is stopped', async () => {
  const sockets: Socket[] = [];
  // It accepts the connection and then says nothing, as a server that starts.
  const silent = createServer((socket) => void sockets.push(socket.resume())).listen(0, '127.0.0.1');
  await new Promise((resolve) => silent.once('listening', resolve));
  const { port } = silent.address() as AddressInfo;
  const failures: unknown[] = [];
  const work = () => Promise.reject(new Error('There is no connection to work with.'));
  const connected = new Promise((resolve) => silent.once('connection', resolve));
  const stop = keepConnection({ host: '127.0.0.1', port }, work, (error) => failures.push(error));
  await connected;
  await stop();
  expect(failures).toEqual([]);
  for (const socket of sockets) socket.destroy();
  silent.close();
});
