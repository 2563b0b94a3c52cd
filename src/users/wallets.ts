import { createBatchedRead, type KeyedRow } from '../db/batched-read.js';
import type { Database } from '../db/database.js';
import { fewAtATime, oneAtATime } from '../db/one-at-a-time.js';
import { LARGEST_ID } from '../domain/parse.js';
import type { ProjectScope } from '../domain/projects.js';
import type { WalletOwner } from '../domain/users.js';
import type { MalformedWallet, WalletQuestion, WalletVerdict, WalletVerdicts } from '../domain/wallets.js';
import { findOwnersOfBatch, findWalletOwners, type VerdictRow, type WalletKey, type WalletRow } from './wallets.sql.js';

/** The links of an address that a shared statement reads. */
const MAX_SHARED_LINKS = 8;
/** The links that each later statement reads, for this address alone. */
const MAX_LINKS_READ = 2_000;
/** The statements for many wallets that a project may have at once: a GraphQL operation with many lists would take every connection. */
const CONCURRENT_STATEMENTS = 2;

interface ManyWallets {
  readonly projectId: number;
  readonly keys: readonly WalletKey[];
}

/** Tells whether an address belongs to a current user. Callers decide by it whether to transfer money. */
export interface Wallets {
  /** A verdict on each wallet, all of one snapshot: nearly always one statement. Malformed wallets and impossible users are not looked up. */
  verifyWallets(scope: ProjectScope, wallets: readonly (WalletQuestion | MalformedWallet)[]): Promise<WalletVerdicts>;
  /** The current user to whom the address belongs, or null; only `userId` where given (spec, "POST /server/wallets/verify"). */
  findOwner(scope: ProjectScope, wallet: WalletQuestion): Promise<WalletOwner | null>;
}

export function createWallets(db: Database): Wallets {
  const owners = createBatchedRead({
    name: 'wallet owners',
    read: (keys: readonly WalletKey[]) => findOwnersOfBatch(db, keys),
    answer: ([row]) => row as KeyedRow<VerdictRow>,
  });

  /** The first owner after the last link that was read. */
  const findLaterOwner = oneAtATime(async (key: WalletKey): Promise<VerdictRow | undefined> => {
    let [row]: VerdictRow[] = await findWalletOwners(db, [key]);
    while (typeof row?.lastLink === 'number') {
      [row] = await findWalletOwners(db, [{ ...key, afterLink: row.lastLink }]);
    }
    return row;
  });

  /** For keys of which some have had many owners: several statements in one snapshot, of which each reads a limited number of links. */
  const findOwnersInSnapshot = oneAtATime(({ keys }: ManyWallets) =>
    db.requestTransaction(async (tx) => {
      const rows = await findWalletOwners(tx, keys);
      for (let open = undecided(rows); open.length > 0; open = undecided(open)) {
        const links = Math.ceil(MAX_LINKS_READ / open.length);
        const later = open.map(({ keyIndex, lastLink }) => {
          return { ...(keys[keyIndex - 1] as WalletKey), afterLink: lastLink as number, links };
        });
        for (const { keyIndex, asOf: _, ...row } of await findWalletOwners(tx, later))
          Object.assign(open[keyIndex - 1] as KeyedRow<WalletRow>, row);
      }
      return rows;
    }, 'REPEATABLE READ'),
  );

  /** One row for each key, in any order and of one snapshot. */
  const findOwners = fewAtATime(CONCURRENT_STATEMENTS, async (wallets: ManyWallets) => {
    const rows = await findWalletOwners(db, wallets.keys);
    return undecided(rows).length === 0 ? rows : findOwnersInSnapshot(wallets);
  });

  return {
    async verifyWallets(scope, wallets) {
      const projectId = scope.projectIdFor('verify');
      const verdicts = wallets.map((wallet): WalletVerdict => ('reason' in wallet ? malformed(wallet) : NOT_OWNED));
      const asked: number[] = [];
      const keys = wallets.flatMap((wallet, place): WalletKey[] => {
        if ('reason' in wallet || (wallet.userId !== null && wallet.userId > LARGEST_ID)) return [];
        asked.push(place);
        const { address, userId } = wallet;
        return [{ projectId, addressKey: address.key, userId, afterLink: 0, links: MAX_SHARED_LINKS }];
      });
      // Without a question for the database, any instant is as good.
      let asOf = new Date().toISOString();
      for (const row of keys.length === 0 ? [] : await findOwners({ projectId, keys })) {
        const owner = ownerOf(row);
        if (owner !== null) verdicts[asked[row.keyIndex - 1] as number] = { ...NOT_OWNED, verdict: 'VERIFIED', owner };
        asOf = row.asOf ?? asOf;
      }
      return { asOf, verdicts };
    },

    async findOwner(scope, { address, userId }) {
      const question = { projectId: scope.projectIdFor('verify'), addressKey: address.key, userId };
      if (userId !== null && userId > LARGEST_ID) return null;
      const row = await owners({ ...question, afterLink: 0, links: MAX_SHARED_LINKS });
      if (row.lastLink === null) return ownerOf(row);
      return ownerOf(await findLaterOwner({ ...question, afterLink: row.lastLink, links: MAX_LINKS_READ }));
    },
  };
}

function ownerOf(row: VerdictRow | undefined): WalletOwner | null {
  return row === undefined || row.userId === null ? null : (row as WalletOwner);
}

const NOT_OWNED: WalletVerdict = { verdict: 'NOT_OWNED', owner: null, reason: null };

const malformed = ({ reason }: MalformedWallet): WalletVerdict => ({ ...NOT_OWNED, verdict: 'MALFORMED', reason });

/** The rows without an owner whose address has more links. */
function undecided(rows: readonly KeyedRow<WalletRow>[]): KeyedRow<WalletRow>[] {
  return rows.filter(({ lastLink }) => lastLink !== null);
}
