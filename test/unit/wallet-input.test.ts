import fc from 'fast-check';
import { expect, test } from 'vitest';
import { walletBatches } from '#dist/users/wallet-input.js';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';

/** Questions about wallets, as files have them. CSV is tried with tables of other systems (csv.test.ts). */

/** The lines of a file that comes in pieces, and how many are in each batch. */
async function read(text: string, length = 2 ** 16) {
  async function* input() {
    const bytes = Buffer.from(text);
    for (let start = 0; start < bytes.length; start += length) yield bytes.subarray(start, start + length);
  }
  const batches = [];
  for await (const batch of walletBatches(input())) batches.push(batch);
  return { lines: batches.flat(), sizes: batches.map((batch) => batch.length) };
}

const [stellar, ethereum] = [stellarAddress(1), ethereumAddress(1)];
/** A line, and what is asked by it; null where it asks nothing. */
const LINES: readonly [line: string, wallet: object | null][] = [
  ['', null],
  [stellar, expect.objectContaining({ address: expect.objectContaining({ publicKey: stellar }), userId: null })],
  [`  ${ethereum}  `, expect.objectContaining({ userId: null })],
  [`{"address": "${stellar}"}`, expect.objectContaining({ userId: null })],
  [`{"address": "${ethereum}", "user_id": 7}`, expect.objectContaining({ userId: 7n })],
  [`{"address": "${stellar}", "user_id": 0}`, { address: stellar, reason: expect.stringContaining('user_id: got 0') }],
  ['{"address": "0x1"}', { reason: 'an Ethereum address has 40 hex digits after 0x, and this has 1' }],
  ['{"address": ', { reason: expect.stringContaining('JSON') }],
  ['hello', { reason: 'it begins neither with G (Stellar) nor with 0x (Ethereum)' }],
];

test('are a line of JSON or an address, with their numbers, however the file comes', async () => {
  const lineOf = fc.constantFrom(...LINES.keys());
  await fc.assert(
    fc.asyncProperty(fc.array(lineOf, { maxLength: 12 }), fc.integer({ min: 1, max: 80 }), async (places, length) => {
      const asked = places.map((place) => LINES[place] as (typeof LINES)[number]);
      const text = asked.map(([line]) => `${line}\n`).join('');
      const right = asked.flatMap(([, wallet], index) => (wallet === null ? [] : [{ line: index + 1, wallet }]));
      expect((await read(text, length)).lines).toEqual(right);
    }),
    { numRuns: 60 },
  );
});

test('come in batches of as many as one request may ask', async () => {
  const { sizes } = await read(`${stellar}\n`.repeat(1_001));
  expect(sizes).toEqual([500, 500, 1]);
  expect((await read(`${stellar}\n`.repeat(500))).sizes).toEqual([500]);
  expect((await read('\n\n')).sizes).toEqual([]);
});
