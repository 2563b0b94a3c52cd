import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { SpoolFile, Stored } from '../../src/domain/import-format.js';
import { createSpool } from '../../src/users/spool.js';

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
