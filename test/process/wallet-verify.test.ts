import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import {
  type Credentials,
  linesOf,
  logIn,
  makeFolder,
  outcomeOf,
  spawnUserdir,
  userdir,
  useServer,
} from '../support/command.js';
import { copyTemplate } from '../support/engines.js';

/** `userdir wallet verify`, beside a running server, which on the embedded database does the work. */

const server = useServer();
let project: Credentials;
const MINE = stellarAddress(1);
const WALLET = ethereumAddress(2);
let owner: number;
let other: number;

beforeAll(async () => {
  project = await server.createProject();
  const accounts = [{ network: 'STELLAR', publicKey: MINE }];
  owner = await logIn(server.url(), project, { authMethod: 'google', authValue: 'owner', accounts });
  other = await logIn(server.url(), project, { authMethod: 'wallet', authValue: WALLET });
});

const verify = (input: string | Buffer, ...options: string[]) =>
  userdir(server.settings(), ['wallet', 'verify', '--project', project.app_id, ...options], input);

const VERIFIED = { verdict: 'VERIFIED', network: 'stellar', wallet_type: 'custodial', auth_method: 'google' };

test('each line has a verdict, in the order of the input, and the report is on stderr', async () => {
  const input = [
    MINE,
    JSON.stringify({ address: WALLET.toUpperCase().replace('0X', '0x'), user_id: other }),
    '',
    `  ${stellarAddress(404)}\t\r`,
    JSON.stringify({ address: MINE, user_id: other }),
    JSON.stringify({ address: MINE }),
  ].join('\n');
  const { code, stdout, stderr } = await verify(input);
  expect([code, stderr]).toEqual([0, 'Verified 3, not owned 2, malformed 0.\n']);
  expect(linesOf(stdout)).toEqual([
    { line: 1, address: MINE, ...VERIFIED, user_id: owner },
    {
      line: 2,
      address: WALLET.toUpperCase().replace('0X', '0x'),
      verdict: 'VERIFIED',
      user_id: other,
      network: 'ethereum',
      wallet_type: 'external',
      auth_method: 'wallet',
    },
    { line: 4, address: stellarAddress(404), verdict: 'NOT_OWNED' },
    { line: 5, address: MINE, verdict: 'NOT_OWNED' },
    { line: 6, address: MINE, ...VERIFIED, user_id: owner },
  ]);
});

test('malformed lines have a reason, repeat an address only if it is well-formed, and end the command with 1', async () => {
  const seed = `S${'B'.repeat(55)}`;
  const input = Buffer.concat([
    Buffer.from(`${MINE}\nhello\n${seed}\n{"address":\n{"address":"${MINE}","userId":1}\n{"user_id":1}\n`),
    Buffer.from(`{"address":"${MINE}","user_id":null}\n`),
    Buffer.from([0xff, 0xfe, 0x0a]),
    Buffer.from(`${'x'.repeat(1_048_577)}\n${MINE}\n`),
  ]);
  const { code, stdout, stderr } = await verify(input);
  expect(code).toBe(1);
  const lines = linesOf(stdout);
  expect(lines.map(({ line, verdict }) => `${line} ${verdict}`)).toEqual([
    '1 VERIFIED',
    ...[2, 3, 4, 5, 6, 7, 8, 9].map((line) => `${line} MALFORMED`),
    '10 VERIFIED',
  ]);
  expect(lines.slice(1, 9).map(({ reason }) => reason)).toEqual([
    'it begins neither with G (Stellar) nor with 0x (Ethereum)',
    'this looks like a secret seed (S…), which must never be sent anywhere',
    expect.stringMatching(/^The line is not valid JSON: /),
    'wallet: got the unknown key "userId", expected only address and user_id.',
    expect.stringMatching(/^address: got nothing, expected a Stellar address/),
    'user_id: got null, expected a whole number without quotes, 1 and up',
    'The line is not valid UTF-8.',
    'The line has more than 1048576 bytes.',
  ]);
  expect(lines.flatMap(({ line, address }) => (address === MINE ? [line] : []))).toEqual([1, 5, 7, 10]);
  expect(stdout + stderr).not.toContain(seed);
  expect(stderr).toMatch(
    /^line 2: it begins neither with G .*\nline 3: .*\nline 4: .*\nline 5: .*\nline 6: .*\n3 more malformed lines\.\nVerified 2, not owned 0, malformed 8\.\n$/,
  );
});

test('CSV is read in any encoding by its titles, and a row that asks without a user ID is malformed', async () => {
  const rows = [
    `\ufeffAddress;userId\r`,
    `${MINE};${owner}\r`,
    `"${WALLET}";${owner}`,
    '',
    `${MINE};`,
    `hello;${owner}`,
  ];
  const { code, stdout, stderr } = await verify(Buffer.from(rows.join('\n'), 'utf16le'));
  expect([code, stderr.split('\n').at(-2)]).toEqual([1, 'Verified 1, not owned 1, malformed 2.']);
  expect(linesOf(stdout)).toEqual([
    { line: 2, address: MINE, ...VERIFIED, user_id: owner },
    { line: 3, address: WALLET, verdict: 'NOT_OWNED' },
    { line: 5, address: MINE, verdict: 'MALFORMED', reason: 'user_id: got "", expected a whole number, 1 and up.' },
    { line: 6, verdict: 'MALFORMED', reason: 'it begins neither with G (Stellar) nor with 0x (Ethereum)' },
  ]);
  const [alone] = linesOf((await verify(`address\n${MINE}`)).stdout);
  expect(alone).toMatchObject({ line: 2, verdict: 'VERIFIED' });
  for (const [titles, message] of [
    ['address,uid', /CSV: got the titles address, uid; expected "address", or "address" and "user_id"\./],
    [`${MINE},${owner}`, /needs a line of titles/],
  ] as const) {
    const refused = await verify(`${titles}\n${MINE},${owner}\n`);
    expect([refused.code, refused.stdout]).toEqual([2, '']);
    expect(refused.stderr).toMatch(message);
  }
});

test('several batches from a file, with the report as JSON', async () => {
  const addresses = Array.from({ length: 1_301 }, (_, index) => (index % 3 === 0 ? MINE : ethereumAddress(index + 10)));
  const file = join(makeFolder(), 'addresses.txt');
  await writeFile(file, addresses.join('\n'));
  const { code, stdout, stderr } = await verify('', file, '--json');
  expect(code).toBe(0);
  expect(JSON.parse(stderr)).toEqual({ verified: 434, not_owned: 867, malformed: 0, errors: [] });
  const lines = linesOf(stdout);
  expect(lines.map(({ address }) => address)).toEqual(addresses);
  expect(lines.map(({ line }) => line)).toEqual(addresses.map((_, index) => index + 1));
  expect(lines.every(({ address, verdict }) => (verdict === 'VERIFIED') === (address === MINE))).toBe(true);
});

test('verdicts are written while the input is still coming, without a server beside it', async () => {
  await using database = await copyTemplate();
  const created = await userdir(database.env, ['project', 'create', '--name', 'Test', '--json']);
  const { app_id } = JSON.parse(created.stdout);
  const child = spawnUserdir(database.env, ['wallet', 'verify', '--project', app_id]);
  const outcome = outcomeOf(child);
  child.stdin.write(`${MINE}\n`.repeat(1_500));
  await once(child.stdout, 'data');
  child.stdin.end(`${MINE}\n`);
  const { code, stdout } = await outcome;
  expect([code, linesOf(stdout).length]).toEqual([0, 1_501]);
});
