import { hash } from 'node:crypto';

/* Finds the lines of a file that are of one user, by identity or external id: which of them is right, nothing tells. */

/** The numbers of a slot: half of a digest in each of two, and the line; a slot without a line is free. */
const WIDTH = 3;
const FIRST_SLOTS = 2 ** 12;
/** 96 MiB, for six million texts: the memory of an import does not grow with its file. */
const MOST_SLOTS = 2 ** 23;
const FULLEST = 0.75;

/** Remembers the first line of each text. It compares digests of 64 bits, because the texts are long. */
export interface FirstLines {
  /** An earlier line that has one of the texts of a line; null if this line is the first with each of them. */
  earlierThan(line: number, texts: readonly string[]): EarlierLine | null;
  /** Begins anew where `more` texts may fill it: the database alone compares lines so far apart. */
  makeRoom(more: number): void;
}

export interface EarlierLine {
  readonly line: number;
  /** Which of the texts it has. */
  readonly place: number;
}

export function createFirstLines(): FirstLines {
  let slots = FIRST_SLOTS;
  let table = new Uint32Array(WIDTH * slots);
  let entries = 0;

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
    earlierThan(line, texts) {
      const digests = texts.map((text) => {
        const digest = hash('sha256', text, 'buffer');
        return [digest.readUInt32LE(0), digest.readUInt32LE(4)] as const;
      });
      for (const [place, digest] of digests.entries()) {
        const first = table[placeOf(...digest) + 2] ?? 0;
        if (first !== 0) return { line: first, place };
      }
      for (const digest of digests) {
        table.set([...digest, line], placeOf(...digest));
        entries += 1;
        if (entries > FULLEST * slots && slots < MOST_SLOTS) grow();
      }
      return null;
    },

    makeRoom(more) {
      if (entries + more <= FULLEST * MOST_SLOTS) return;
      table.fill(0);
      entries = 0;
    },
  };
}
