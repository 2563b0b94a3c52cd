import type { Command } from 'commander';
import { graphql, type ResultOf } from '../dashboard/documents.js';
import { isStored } from '../domain/import-format.js';
import { type Line, parseJson, splitLines, textOf } from '../domain/lines.js';
import { parse } from '../domain/parse.js';
import {
  MAX_WALLETS,
  type MalformedWallet,
  parseAddress,
  readWalletObject,
  type WalletQuestion,
  walletObject,
} from '../domain/wallets.js';
import { AppError, badInput, counted, fromUnknown } from '../errors.js';
import { fileArgument, openInput, projectOption } from './arguments.js';
import type { Result } from './door.js';
import type { CommandContext, Tools } from './rows.js';
import { writeToStdout } from './terminal.js';

const VERIFY_HELP = `
One wallet per line: a JSON object, or only an address. Or CSV with a line of titles.
  {"address":"G…","user_id":42}         address,user_id
  0x…                                   G…,42
Each has a line of output, in the same order. \`line\` is its number in the input:
  {"line":1,"address":"G…","verdict":"VERIFIED","user_id":42,"network":"stellar",
   "wallet_type":"custodial","auth_method":"email"}   (on one line)
  {"line":2,"address":"0x…","verdict":"NOT_OWNED"}
  {"line":3,"verdict":"MALFORMED","reason":"it is empty"}   (with the address if that is right)
Empty lines are skipped. Exits with 1 if a line is malformed.`;

/** Batches whose verdicts are awaited at once: the database looks up one while the lines of the next are read. */
const BATCHES_AT_ONCE = 2;
/** How many malformed lines the report names. */
const LINES_NAMED = 5;

export function addWalletCommands(program: Command, { act }: CommandContext): void {
  act(program.command('wallet').description('verify the addresses of wallets'), {
    name: 'wallet verify',
    description: 'decide for each line whether the address belongs to a user, as NDJSON on stdout',
    help: VERIFY_HELP,
    examples: [
      'wallet verify --project app_1 wallets.ndjson > verdicts.ndjson',
      'wallet verify --project app_1 - < addresses.txt',
      'wallet verify --project app_1 wallets.csv',
    ],
    takes: [fileArgument(), projectOption()],
    unit: 'lines',
    interrupted: 'Interrupted. The lines that were not written are not verified.',
    act: verifyWallets,
    print: reportText,
    tellsOnStderr: true,
    isFailure: ({ malformed }) => malformed > 0,
  });
}

interface Report {
  verified: number;
  not_owned: number;
  malformed: number;
  /** The first LINES_NAMED malformed lines. */
  errors: { line: number; error: string }[];
}

/** A line of the input that is not empty. */
interface WalletLine {
  readonly line: number;
  readonly wallet: WalletQuestion | MalformedLine;
}

/** The address only where it is well-formed, and something else is at fault: another text may be a secret in the wrong place. */
interface MalformedLine extends MalformedWallet {
  readonly address?: string | undefined;
}

const OWNERS = graphql(`query WalletOwners($project: ID!, $wallets: [WalletQuestion!]!) {
  project(appId: $project) {
    walletOwners(wallets: $wallets) { user_id: userId network wallet_type: walletType auth_method: authMethod }
  }
}`);

type Owner = NonNullable<Result<ResultOf<typeof OWNERS>>[number]>;

async function verifyWallets(
  { ask, progress, signal }: Tools,
  { project, file }: { readonly project: string; readonly file: string },
): Promise<Report> {
  const { chunks, fraction } = countBytes(await openInput(file, 'wallets', signal));
  const report: Report = { verified: 0, not_owned: 0, malformed: 0, errors: [] };

  async function verifyLines(lines: readonly WalletLine[]): Promise<Answer[]> {
    const wallets = lines.flatMap(({ wallet }) =>
      'reason' in wallet ? [] : { address: wallet.address.publicKey, userId: wallet.userId?.toString() ?? null },
    );
    const owners = (await ask(OWNERS, { project, wallets })).values();
    return lines.map(({ line, wallet }) =>
      'reason' in wallet
        ? { line, address: wallet.address, verdict: 'MALFORMED', reason: wallet.reason }
        : { line, address: wallet.address.publicKey, ...verdictOn(owners.next().value ?? null) },
    );
  }

  // An unknown project is told before anything is read.
  await verifyLines([]);
  for await (const answers of inOrder(walletBatches(chunks), verifyLines)) {
    signal.throwIfAborted();
    for (const answer of answers) count(report, answer);
    await writeToStdout(answers.map((answer) => `${JSON.stringify(answer)}\n`).join(''));
    progress({ done: answers.at(-1)?.line ?? 0, ...fraction() });
  }
  return report;
}

/** A line of the output. */
interface Answer {
  readonly line: number;
  readonly address?: string | undefined;
  readonly verdict: 'VERIFIED' | 'NOT_OWNED' | 'MALFORMED';
  readonly reason?: string;
}

function verdictOn(owner: Owner | null) {
  if (owner === null) return { verdict: 'NOT_OWNED' } as const;
  const { user_id, network, wallet_type, auth_method } = owner;
  return {
    ...({ verdict: 'VERIFIED', user_id: Number(user_id), network: network.toLowerCase() } as const),
    ...{ wallet_type: wallet_type.toLowerCase(), auth_method },
  };
}

/** The wallets of the input in batches. */
async function* walletBatches(input: AsyncGenerator<Buffer>): AsyncGenerator<WalletLine[]> {
  const { isCsv, all } = await lookAt(input);
  let batch: WalletLine[] = [];
  for await (const wallets of isCsv ? walletsOfCsv(all) : walletsOfLines(all)) {
    for (const wallet of wallets) {
      batch.push(wallet);
      if (batch.length < MAX_WALLETS) continue;
      yield batch;
      batch = [];
    }
  }
  if (batch.length > 0) yield batch;
}

/** As much of the input is looked at for its first line. */
const LOOK_BYTES = 65_536;
/** A first line with a delimiter, or the title alone. Neither JSON nor an address is one. */
const CSV = /^(?!\{)(.*[,;\t|]|"?address"?$)/i;

/** Whether the input is CSV, in any encoding, and all of it. Later lines are not waited for. */
async function lookAt(input: AsyncGenerator<Buffer>): Promise<{ isCsv: boolean; all: AsyncGenerator<Buffer> }> {
  const chunks: Buffer[] = [];
  let line: string | undefined;
  for (let text = ''; line === undefined && text.length < LOOK_BYTES; ) {
    const { done, value } = await input.next();
    if (done) break;
    chunks.push(value);
    text += value.toString('latin1').replaceAll('\0', '');
    // Without a byte order mark.
    line = /^[^\w{"]*(.*?)\s*[\r\n]/.exec(text)?.[1];
  }
  async function* all() {
    yield* chunks;
    yield* input;
  }
  return { isCsv: CSV.test(line ?? ''), all: all() };
}

async function* walletsOfLines(input: AsyncIterable<Buffer>): AsyncGenerator<WalletLine[]> {
  let number = 0;
  for await (const lines of splitLines(input))
    yield lines.flatMap((line) => {
      number += 1;
      const wallet = orMalformed(
        () => readLine(line),
        () => (parseJson(textOf(line)) as { address?: unknown } | null)?.address,
      );
      return wallet === null ? [] : [{ line: number, wallet }];
    });
}

/** No other column is taken: one that names the user in another way would be a question about any user. */
const TITLES = ['address', 'address,user_id', 'address,userid'];

async function* walletsOfCsv(input: AsyncIterable<Buffer>): AsyncGenerator<WalletLine[]> {
  const { readFile } = await import('../users/moving/read.js');
  const { form, records } = await readFile(input, {
    ...{ name: 'wallets', title: 'wallets', idFields: [], fields: ['address', 'user_id', 'userid'] },
    toPerson: () => 'wallets',
    checkTitles(titles) {
      if (TITLES.includes([...titles].sort().join())) return;
      const message = `CSV: got the titles ${titles.join(', ')}; expected "address", or "address" and "user_id".`;
      throw new AppError('BAD_USER_INPUT', message);
    },
  });
  const asksForUser = form.titles?.length === 2;
  for await (const some of records)
    yield some.map(({ place, read }) => ({
      line: place,
      wallet: orMalformed(
        () => walletOfCells(read(), asksForUser),
        () => read()['address'],
      ),
    }));
}

/** An empty cell is refused: a caller lost the ID. */
function walletOfCells({ address, user_id, userid }: Record<string, unknown>, asksForUser: boolean) {
  if (!asksForUser) return readWalletObject(parse(walletObject, { address }));
  const cell = String(user_id ?? userid ?? '');
  if (!/^0*[1-9]\d{0,14}$/.test(cell)) throw badInput('user_id', cell, 'a whole number, 1 and up');
  return readWalletObject(parse(walletObject, { address, user_id: Number(cell) }));
}

/** The input, and how much of it has been read, if its length is known. */
function countBytes(input: Awaited<ReturnType<typeof openInput>>) {
  let readBytes = 0;
  async function* chunks() {
    for await (const chunk of input) {
      readBytes += chunk.length;
      yield chunk;
    }
  }
  return { chunks: chunks(), fraction: () => (isStored(input) ? { fraction: readBytes / input.bytes } : {}) };
}

/** The wallet of a line; null for an empty line. BAD_USER_INPUT. */
function readLine(line: Line): WalletQuestion | MalformedWallet | null {
  const text = textOf(line);
  if (text === '') return null;
  return readWalletObject(text.startsWith('{') ? parse(walletObject, parseJson(text)) : { address: text });
}

function orMalformed<Wallet extends object | null>(
  read: () => Wallet | MalformedWallet,
  given: () => unknown,
): Wallet | MalformedLine {
  const wallet = orReason(read);
  if (wallet === null || !('reason' in wallet)) return wallet;
  const address = orReason(() => parseAddress(String(given())));
  return 'reason' in address ? wallet : { ...wallet, address: address.publicKey };
}

function orReason<Value>(read: () => Value): Value | MalformedWallet {
  try {
    return read();
  } catch (error) {
    const known = fromUnknown(error);
    if (known.code !== 'BAD_USER_INPUT') throw error;
    return { reason: known.message };
  }
}

/** The results of `work` in the order of the items, a few of which are in work at once. */
async function* inOrder<Item, Result>(
  items: AsyncIterable<Item>,
  work: (item: Item) => Promise<Result>,
): AsyncGenerator<Result> {
  const begun: Promise<Result>[] = [];
  for await (const item of items) {
    const result = work(item);
    // Awaited later; until then a rejection must not count as unhandled.
    result.catch(() => undefined);
    begun.push(result);
    if (begun.length >= BATCHES_AT_ONCE) yield begun.shift() as Promise<Result>;
  }
  yield* begun;
}

function count(report: Report, { line, verdict, reason }: Answer): void {
  report[verdict.toLowerCase() as Lowercase<typeof verdict>] += 1;
  if (reason !== undefined && report.errors.length < LINES_NAMED) report.errors.push({ line, error: reason });
}

function reportText({ verified, not_owned, malformed, errors }: Report): string {
  const more = malformed - errors.length;
  return [
    ...errors.map(({ line, error }) => `line ${line}: ${error}`),
    ...(more > 0 ? [`${counted(more, 'more malformed line')}.`] : []),
    `Verified ${verified}, not owned ${not_owned}, malformed ${malformed}.`,
  ].join('\n');
}
