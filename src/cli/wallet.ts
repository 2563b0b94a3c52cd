import type { Command } from 'commander';
import { api, inProject, type ResultOf } from '../dashboard/documents.js';
import { readAhead } from '../domain/lines.js';
import { countBytes } from '../domain/stored.js';
import type { WalletQuestion } from '../domain/wallets.js';
import { counted } from '../errors.js';
import { type WalletLine, walletBatches } from '../users/wallet-input.js';
import { fileArgument, openInput, projectOption } from './arguments.js';
import type { CommandContext, Tools } from './rows.js';
import { toJson, writeToStdout } from './terminal.js';

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

const VERIFY = inProject(
  api(`query VerifyWallets($inputs: [WalletInput!]!) {
    verifyWallets(inputs: $inputs) { verdict user_id: userId network wallet_type: walletType auth_method: authMethod }
  }`),
);

type Verdict = ResultOf<typeof VERIFY>['verifyWallets'][number];

async function verifyWallets(
  { ask, progress, signal }: Tools,
  { project, file }: { readonly project: string; readonly file: string },
) {
  const { chunks, fraction } = countBytes(await openInput(file, 'wallets', signal));
  const report = { verified: 0, not_owned: 0, malformed: 0, errors: [] as { line: number; error: string }[] };

  async function verifyLines(lines: readonly WalletLine[]): Promise<Answer[]> {
    const inputs = lines.flatMap(({ wallet }) => ('reason' in wallet ? [] : inputOf(wallet)));
    const verdicts = (await ask(VERIFY, { project, inputs })).values();
    return lines.map(({ line, wallet }) =>
      'reason' in wallet
        ? { line, address: wallet.address, verdict: 'MALFORMED', reason: wallet.reason }
        : { line, address: wallet.address.publicKey, ...decisionOf(verdicts.next().value as Verdict) },
    );
  }

  // An unknown project is told before anything is read.
  await verifyLines([]);
  // The database looks up a batch while the lines of the next are read, and the verdicts on the one before are written.
  async function* verified() {
    for await (const lines of readAhead(walletBatches(chunks()))) yield await verifyLines(lines);
  }
  for await (const answers of readAhead(verified())) {
    signal.throwIfAborted();
    for (const { line, verdict, reason } of answers) {
      report[verdict.toLowerCase() as Lowercase<typeof verdict>] += 1;
      if (reason !== undefined && report.errors.length < LINES_NAMED) report.errors.push({ line, error: reason });
    }
    await writeToStdout(answers.map((answer) => `${toJson(answer)}\n`).join(''));
    progress(answers.at(-1)?.line ?? 0, fraction());
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

/** With an explicit null for the user, a wallet would be malformed. */
function inputOf({ address, userId }: WalletQuestion) {
  const { publicKey } = address;
  return userId === null ? { address: publicKey } : { address: publicKey, userId: String(userId) };
}

/** Networks and types of wallets in the spelling of REST. */
function decisionOf({ verdict, user_id, network, wallet_type, auth_method }: Verdict) {
  if (verdict !== 'VERIFIED') return { verdict };
  return {
    verdict,
    user_id,
    network: network?.toLowerCase(),
    wallet_type: wallet_type?.toLowerCase(),
    auth_method,
  };
}

function reportText({ verified, not_owned, malformed, errors }: Awaited<ReturnType<typeof verifyWallets>>): string {
  const more = malformed - errors.length;
  return [
    ...errors.map(({ line, error }) => `line ${line}: ${error}`),
    ...(more > 0 ? [`${counted(more, 'more malformed line')}.`] : []),
    `Verified ${verified}, not owned ${not_owned}, malformed ${malformed}.`,
  ].join('\n');
}
