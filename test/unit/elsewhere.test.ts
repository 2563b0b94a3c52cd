import Fastify from 'fastify';
import { expect, test, vi } from 'vitest';
import { sendBytes } from '#dist/http/threads.js';

// Node.js 20 cannot free a buffer.
test.runIf('transfer' in ArrayBuffer.prototype)(
  'bytes of the other thread are sent whole, and then freed',
  async () => {
    const sent: Uint8Array<ArrayBuffer>[] = [];
    const app = Fastify();
    app.get('/', (_request, reply) => {
      const bytes = new Uint8Array(3_000_000).fill(97);
      sent.push(bytes);
      return sendBytes(reply.type('text/plain'), bytes);
    });
    const url = await app.listen({ port: 0 });
    const texts = await Promise.all([1, 2, 3].map(async () => (await fetch(url)).text()));
    expect(texts.map((text) => text === 'a'.repeat(3_000_000))).toEqual([true, true, true]);
    await vi.waitFor(() => expect(sent.map(({ byteLength }) => byteLength)).toEqual([0, 0, 0]));
    await app.close();
  },
);
