import { type Line, lookAt, parseJson, splitLines, textOf } from '../domain/lines.js';
import { allFaults, parse } from '../domain/parse.js';
import {
  MAX_WALLETS,
  type MalformedWallet,
  parseAddress,
  readWalletObject,
  requireAddress,
  type WalletQuestion,
  walletObject,
} from '../domain/wallets.js';
import { AppError, badInput, fromUnknown } from '../errors.js';

/* Reads questions about wallets: lines of JSON or of an address, or CSV. */

/** A line of the input that is not empty. */
export interface WalletLine {
  readonly line: number;
  readonly wallet: WalletQuestion | MalformedLine;
}

/** The address only where it is well-formed, and something else is at fault: another text may be a secret in the wrong place. */
interface MalformedLine extends MalformedWallet {
  readonly address?: string | undefined;
}

/** The wallets of the input in batches. */
export async function* walletBatches(input: AsyncGenerator<Buffer>): AsyncGenerator<WalletLine[]> {
  const [first, all] = await lookAt(input, LOOK_BYTES);
  let batch: WalletLine[] = [];
  for await (const wallets of isCsv(Buffer.concat(first)) ? walletsOfCsv(all) : walletsOfLines(all)) {
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
const LOOK_BYTES = 4_096;
/** A first line with a delimiter, or the title alone, in any encoding. Neither JSON nor an address is one. */
const CSV = /^(?!\{)(.*[,;\t|]|"?address"?$)/i;

function isCsv(beginning: Buffer): boolean {
  // Without a byte order mark.
  const text = beginning
    .toString('latin1', 0, LOOK_BYTES)
    .replaceAll('\0', '')
    .replace(/^[^\w{"]+/, '');
  const end = text.search(/[\r\n]/);
  return end !== -1 && CSV.test(text.slice(0, end).trimEnd());
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
  const { readFile } = await import('./moving/read.js');
  const { form, records } = await readFile(input, {
    name: 'wallets',
    title: 'wallets',
    idFields: [],
    fields: ['address', 'user_id', 'userid'],
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

/** An empty cell is refused: a caller lost the ID. Two wrong cells are named together. */
function walletOfCells({ address, user_id, userid }: Record<string, unknown>, asksForUser: boolean) {
  if (!asksForUser) return readWalletObject(parse(walletObject, { address }));
  const readId = () => idOfCell(String(user_id ?? userid ?? ''));
  try {
    return readWalletObject(parse(walletObject, { address, user_id: readId() }));
  } catch (error) {
    throw allFaults(error, [readId, () => requireAddress('address', String(address ?? ''))], (read) => read());
  }
}

function idOfCell(cell: string): number {
  if (!/^0*[1-9]\d{0,14}$/.test(cell)) throw badInput('user_id', cell, 'a whole number, 1 and up');
  return Number(cell);
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
