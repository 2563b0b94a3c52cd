/* Cuts JSON of any length into its records: those of a list, of a list within an object, or objects one after another. */

/** A record as JSON text; null for one that is longer than a record may be. */
export type JsonRecord = string | null;

/** Far more than a person has. */
export const MAX_RECORD_LENGTH = 2 ** 20;
const STRUCTURE = /["{}[\]]/g;
const MAX_NAME_LENGTH = 64;

/**
 * Takes text in pieces, and gives the records that each piece completes. The list of an object is that under one of the names in `lists`.
 * It looks at brackets and texts only: whether a record is JSON is told by its parser.
 */
export function createJsonSplitter(lists: readonly string[]) {
  let depth = 0;
  /** The depth at which records begin; Infinity in what is left of an object after its list. */
  let base = 0;
  let isInText = false;
  let isEscaped = false;
  /** The pieces of the record that has begun; null if it is too long. */
  let held: string[] | null = null;
  let heldLength = 0;
  /** The last text of an object that may have the list, and what stands after it. */
  let name = '';
  const mayHaveList = () => depth === 1 && base === 0;

  function hold(text: string): void {
    heldLength += text.length;
    if (heldLength <= MAX_RECORD_LENGTH) held?.push(text);
    else held = null;
  }

  return {
    isWithin: () => depth > 0,

    split(piece: string): JsonRecord[] {
      const records: JsonRecord[] = [];
      /** From where on the piece is not held yet; -1 outside of records. */
      let start = heldLength > 0 ? 0 : -1;
      for (let at = 0; at < piece.length; ) {
        if (isInText) {
          const textStart = at;
          at = endOfText(piece, at);
          if (mayHaveList() && name.length <= MAX_NAME_LENGTH)
            name += piece.slice(textStart, isInText ? at : at - 1).slice(0, MAX_NAME_LENGTH + 1);
          continue;
        }
        STRUCTURE.lastIndex = at;
        const found = STRUCTURE.exec(piece);
        if (found === null) break;
        const [mark] = found;
        at = found.index + 1;
        if (mark === '"') {
          isInText = true;
          if (mayHaveList()) name = '';
        } else if (mark === '{' || mark === '[') {
          if (mark === '[' && depth === 0) base = 1;
          else if (mark === '[' && mayHaveList() && lists.includes(name)) {
            base = 2;
            [start, held, heldLength] = [-1, null, 0];
          } else if (mark === '{' && depth === base) [start, held, heldLength] = [at - 1, [], 0];
          depth += 1;
          name = '';
        } else {
          depth = Math.max(0, depth - 1);
          if (mark === '}' && depth === base && start >= 0) {
            hold(piece.slice(start, at));
            records.push(held === null ? null : (held as string[]).join(''));
            [start, held, heldLength] = [-1, null, 0];
          } else if (depth === 0) base = 0;
          else if (depth < base) base = Number.POSITIVE_INFINITY;
        }
      }
      if (start >= 0) hold(piece.slice(start));
      return records;
    },
  };

  /** The place after the end of a text, or that of the end of the piece. */
  function endOfText(piece: string, from: number): number {
    let at = from;
    if (isEscaped && at < piece.length) {
      isEscaped = false;
      at += 1;
    }
    for (;;) {
      const end = piece.indexOf('"', at);
      const last = (end === -1 ? piece.length : end) - 1;
      let slash = last;
      while (slash >= at && piece[slash] === '\\') slash -= 1;
      const isOdd = (last - slash) % 2 === 1;
      if (end === -1) {
        isEscaped = isOdd;
        return piece.length;
      }
      at = end + 1;
      if (isOdd) continue;
      isInText = false;
      return at;
    }
  }
}

const LONG_NUMBER = /[:[,]\s*-?\d{16}/;
/** Texts and numbers are matched as wholes, also a text that does not end: no place is looked at twice, and no number within a text is one. */
const TEXT_OR_NUMBER = /"(?:[^"\\]|\\[\s\S])*(?:"|\\?$)|-?\d[\d.eE+-]*/g;
const LONG_WHOLE_NUMBER = /^-?\d{16,}$/;

/** The value of a JSON text, in which a whole number that JavaScript would round is a text. Throws a SyntaxError. */
export function parseExactly(json: string): unknown {
  if (!LONG_NUMBER.test(json)) return JSON.parse(json);
  return JSON.parse(
    json.replace(TEXT_OR_NUMBER, (part) =>
      LONG_WHOLE_NUMBER.test(part) && !Number.isSafeInteger(Number(part)) ? `"${part}"` : part,
    ),
  );
}
