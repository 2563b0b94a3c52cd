import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { createSpool, type SpoolFile, type Stored } from '../../src/services/spool.js';

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

const POSTGRES = { engine: 'postgres', url: '', replicaMaxLagMs: 0, poolSize: 1, poolTimeoutMs: 1 } as const;

test.each([
  ['beside the embedded database', () => ({ engine: 'embedded', dataDir }) as const, () => join(dataDir, 'spool')],
  ['in the temporary directory for PostgreSQL', () => ({ ...POSTGRES, statementTimeoutMs: 1 }), () => dataDir],
])('a spool file %s has no name, and is read from its start each time', async (_, config, dir) => {
  vi.stubEnv('TMPDIR', dataDir);
  const spool = createSpool(config());
  vi.unstubAllEnvs();
  const before = await readdir(dataDir);
  const text = 'ä\n'.repeat(100_000);
  const result = await spool.withFile(async (file) => {
    await file.write(text);
    await file.write(Buffer.from('end'));
    expect(file.bytes).toBe(300_003);
    expect(await readdir(dir())).toEqual(dir() === dataDir ? before : []);
    expect([await textOf(file), await textOf(file)]).toEqual([`${text}end`, `${text}end`]);
    return 'done';
  });
  expect(result).toBe('done');
});

test('a spool file refuses more than its bound, and is closed after its work', async () => {
  const spool = createSpool({ engine: 'embedded', dataDir });
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
