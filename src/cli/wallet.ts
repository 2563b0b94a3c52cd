import type { Command } from 'commander';
import type { Services } from '../context.js';
import { type Line, parseJson, splitLines, textOf } from '../domain/import-format.js';
import { parse } from '../domain/parse.js';
import type { ProjectScope } from '../domain/projects.js';
import {
  formatVerdict,
  MAX_WALLETS,
  type MalformedWallet,
  readWalletObject,
  type WalletQuestion,
  type WalletVerdict,
  walletObject,
} from '../domain/wallets.js';
import { fromUnknown } from '../errors.js';
import { fileArgument, jsonReportOption, openInput, projectOption } from './arguments.js';
import { countBytes, type Io, type OperationContext } from './operation.js';
import type { CommandContext } from './run.js';
import { counted } from './terminal.js';

const VERIFY_HELP = `
One wallet per line: a JSON object, or only an address.
  {"address":"G…","user_id":42}
  0x…
Each has a line of output, in the same order. \`line\` is its number in the input:
  {"line":1,"address":"G…","verdict":"VERIFIED","user_id":42,"network":"stellar",
   "wallet_type":"custodial","auth_method":"email"}   (on one line)
  {"line":2,"address":"0x…","verdict":"NOT_OWNED"}
  {"line":3,"verdict":"MALFORMED","reason":"it is empty"}
Empty lines are skipped. Exits with 1 if a line is malformed.`;

/** Batches whose verdicts are awaited at once: the database looks up one while the lines of the next are read. */
const BATCHES_AT_ONCE = 2;
/** How many malformed lines the report names. */
const LINES_NAMED = 5;

export function addWalletCommands(program: Command, { define }: CommandContext): void {
  define(program.command('wallet').description('verify the addresses of wallets'), {
    name: 'wallet verify',
    description: 'decide for each line whether the address belongs to a user, as NDJSON on stdout',
    help: VERIFY_HELP,
    examples: [
      'wallet verify --project app_1 wallets.ndjson > verdicts.ndjson',
      'wallet verify --project app_1 - < addresses.txt',
    ],
    takes: [fileArgument(), projectOption(), jsonReportOption()],
    params: (_file, { project }) => ({ project }),
    input: (file: string) => openInput(file, 'wallets'),
    unit: 'lines',
    interrupted: 'Interrupted. The lines that were not written are not verified.',
    isLive: true,
    run: verifyWallets,
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
  readonly wallet: WalletQuestion | MalformedWallet;
}

async function verifyWallets(
  { services, operator }: OperationContext,
  params: { project: string },
  { input, write, progress, signal }: Io,
): Promise<Report> {
  const scope = await services.projects.getScope(params.project, operator);
  const report: Report = { verified: 0, not_owned: 0, malformed: 0, errors: [] };
  const { chunks, fraction } = countBytes(input);
  const verdicts = inOrder(walletLines(chunks), (lines) => verifyLines(services, scope, lines));
  for await (const answered of verdicts) {
    signal.throwIfAborted();
    for (const each of answered) count(report, each);
    await write(answered.map(formatLine).join(''));
    progress({ done: (answered.at(-1) as AnsweredLine).line, ...fraction() });
  }
  return report;
}

interface AnsweredLine extends WalletLine {
  readonly verdict: WalletVerdict;
}

async function verifyLines(services: Services, scope: ProjectScope, lines: WalletLine[]): Promise<AnsweredLine[]> {
  const { verdicts } = await services.wallets.verifyWallets(
    scope,
    lines.map(({ wallet }) => wallet),
  );
  return lines.map((line, place) => ({ ...line, verdict: verdicts[place] as WalletVerdict }));
}

/** The lines of the input in batches. */
async function* walletLines(input: AsyncIterable<Buffer>): AsyncGenerator<WalletLine[]> {
  let number = 0;
  let batch: WalletLine[] = [];
  for await (const lines of splitLines(input)) {
    for (const line of lines) {
      number += 1;
      const wallet = readLine(line);
      if (wallet !== null) batch.push({ line: number, wallet });
      if (batch.length < MAX_WALLETS) continue;
      yield batch;
      batch = [];
    }
  }
  if (batch.length > 0) yield batch;
}

/** The wallet of a line; null for an empty line. */
function readLine(line: Line): WalletQuestion | MalformedWallet | null {
  try {
    const text = textOf(line);
    if (text === '') return null;
    return readWalletObject(text.startsWith('{') ? parse(walletObject, parseJson(text)) : { address: text });
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

/** The address is not repeated where it is malformed: it may be a secret in the wrong place. */
function formatLine({ line, wallet, verdict }: AnsweredLine): string {
  const address = 'reason' in wallet ? {} : { address: wallet.address.publicKey };
  return `${JSON.stringify({ line, ...address, ...formatVerdict(verdict) })}\n`;
}

function count(report: Report, { line, verdict: { verdict, reason } }: AnsweredLine): void {
  report[verdict.toLowerCase() as 'verified' | 'not_owned' | 'malformed'] += 1;
  if (reason !== null && report.errors.length < LINES_NAMED) report.errors.push({ line, error: reason });
}

function reportText({ verified, not_owned, malformed, errors }: Report): string {
  const more = malformed - errors.length;
  return [
    ...errors.map(({ line, error }) => `line ${line}: ${error}`),
    ...(more > 0 ? [`${counted(more, 'more malformed line')}.`] : []),
    `Verified ${verified}, not owned ${not_owned}, malformed ${malformed}.`,
  ].join('\n');
}
