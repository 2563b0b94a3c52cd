import { hash } from 'node:crypto';
import { identityText, type UserRecord } from '../domain/identities.js';

/* Finds the lines of a file that are of one user: which of them is right, nothing tells. */

/** The numbers of a slot: half of a digest in each of two, and the line; a slot without a line is free. */
const WIDTH = 3;
const FIRST_SLOTS = 2 ** 12;
/** 96 MiB, for six million users: the memory of an import does not grow with its file. */
const MOST_SLOTS = 2 ** 23;
const FULLEST = 0.75;

export type FirstLines = ReturnType<typeof createFirstLines>;

/** Remembers the first line of each user. It compares digests of 64 bits, because identities are long. */
export function createFirstLines() {
  let slots = FIRST_SLOTS;
  let table = new Uint32Array(WIDTH * slots);
  let users = 0;

  /** The place of the digest, or the one where it is to stand. */
  function placeOf(high: number, low: number): number {
    for (let slot = low % slots; ; slot = (slot + 1) % slots) {
      const place = WIDTH * slot;
      if (table[place + 2] === 0 || (table[place] === high && table[place + 1] === low)) return place;
    }
  }

  function grow(): void {
    const before = table;
    slots *= 2;
    table = new Uint32Array(WIDTH * slots);
    for (let place = 0; place < before.length; place += WIDTH) {
      const [high = 0, low = 0, line = 0] = before.subarray(place, place + WIDTH);
      if (line !== 0) table.set([high, low, line], placeOf(high, low));
    }
  }

  return {
    /** The first line of the user of a line; null if it is this one. */
    earlierThan(line: number, record: UserRecord): number | null {
      const digest = hash('sha256', identityText(record), 'buffer');
      const [high, low] = [digest.readUInt32LE(0), digest.readUInt32LE(4)];
      const place = placeOf(high, low);
      if (table[place + 2] !== 0) return table[place + 2] ?? null;
      table.set([high, low, line], place);
      users += 1;
      if (users > FULLEST * slots && slots < MOST_SLOTS) grow();
      return null;
    },

    /** Begins anew where `more` users may fill it: the database alone tells users of lines so far apart. */
    makeRoom(more: number): void {
      if (users + more <= FULLEST * MOST_SLOTS) return;
      table.fill(0);
      users = 0;
    },
  };
}
