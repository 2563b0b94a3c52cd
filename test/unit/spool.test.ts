import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { SpoolFile, Stored } from '#dist/domain/stored.js';
import { createSpool } from '#dist/users/spool.js';
import { PATIENCE } from '../support/waiting.js';

let dataDir: string;
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'userdir-spool-test-'));
});
afterAll(() => rm(dataDir, { recursive: true }));

async function textOf(stored: Stored): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stored) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

test('a spool file has no name, and is read from its start each time', async () => {
  const spool = createSpool(join(dataDir, 'spool'));
  const text = 'ä\n'.repeat(100_000);
  const result = await spool.withFile(async (file) => {
    await file.write(text);
    await file.write(Buffer.from('end'));
    expect(file.bytes).toBe(300_003);
    expect(await readdir(join(dataDir, 'spool'))).toEqual([]);
    expect([await textOf(file), await textOf(file)]).toEqual([`${text}end`, `${text}end`]);
    return 'done';
  });
  expect(result).toBe('done');
});

test('what goes through a file is read as slowly as it is taken, and produced at its own speed', async () => {
  const { through } = createSpool(dataDir);
  const parts = Array.from({ length: 50 }, (_, part) => `${part} ä€😀 `.repeat(3_000));
  let isProduced = false;
  const taken: string[] = [];
  const result = await through(
    async (write) => {
      for (const part of parts) await write(part);
      isProduced = true;
      return 'all';
    },
    async (text) => {
      // The first piece is not taken before all are produced.
      await vi.waitUntil(() => isProduced, PATIENCE);
      taken.push(text);
    },
  );
  expect([result, taken.join('') === parts.join('')]).toEqual(['all', true]);
});

// Each part may be written while the file is read to its end, so that one part is not enough.
test('what goes through a file comes before the rest of it is produced', async () => {
  const parts = Array.from({ length: 5_000 }, (_, n) => `${n} `);
  const end = performance.now() + PATIENCE.timeout;
  const late: string[] = [];
  let [written, taken] = ['', ''];
  await createSpool(dataDir).through(
    async (write) => {
      for (const part of parts) {
        written += part;
        await write(part);
        // Without a pause: the next part is to come while the reader finds the end. A part may come in pieces.
        while (taken.length < written.length && performance.now() < end) await new Promise(setImmediate);
        if (taken.length < written.length) late.push(part);
      }
    },
    async (text) => {
      taken += text;
    },
  );
  expect([late, taken]).toEqual([[], parts.join('')]);
});

test('a failure on either side of a file ends the other', async () => {
  const { through } = createSpool(dataDir);
  let wrote = 0;
  const endless = async (write: (text: string) => Promise<void>) => {
    for (; ; wrote += 1) await write('x');
  };
  const gone = () => Promise.reject(new Error('gone'));
  await expect(through(endless, gone)).rejects.toThrow('gone');
  const ended = wrote;
  await new Promise((resolve) => setImmediate(resolve));
  expect(wrote).toBe(ended);
  const broken = async (write: (text: string) => Promise<void>) => {
    await write('some');
    throw new Error('broken');
  };
  const taken: string[] = [];
  await expect(through(broken, async (text) => void taken.push(text))).rejects.toThrow('broken');
  expect(taken).toEqual(['some']);
});

test('a spool file refuses more than its bound, and is closed after its work', async () => {
  const spool = createSpool(dataDir);
  let kept: SpoolFile | undefined;
  const work = async (file: SpoolFile) => {
    kept = file;
    await file.write('12345');
    await file.write('6');
  };
  await expect(spool.withFile(work, 5)).rejects.toMatchObject({
    code: 'PAYLOAD_TOO_LARGE',
    message: 'input: got more, expected at most 5 bytes.',
  });
  await expect(textOf(kept as Stored)).rejects.toMatchObject({ code: 'EBADF' });
});
