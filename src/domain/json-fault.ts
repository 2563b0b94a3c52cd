/* Finds where JSON is malformed. The messages of V8 repeat the text, and often have no position. */

/** The first place that is wrong, which is the length of a text that ends too early. */
class Fault {
  constructor(
    readonly at: number,
    readonly expected: string,
  ) {}
}

const SPACE = /[ \t\n\r]*/y;
const SCALAR = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;

/** Says where a text is not JSON and what was expected; null for JSON. It never repeats the text, and recurses as deep as it nests. */
export function describeJsonFault(text: string): string | null {
  try {
    const end = afterSpace(text, afterValue(text, 0, ''));
    if (end === text.length) return null;
    throw new Fault(end, 'the end');
  } catch (fault) {
    if (fault instanceof RangeError) return 'it nests too deeply';
    if (!(fault instanceof Fault)) throw fault;
    const lines = text.slice(0, fault.at).split(/\r\n|\n|\r/);
    const place = `line ${lines.length}, column ${(lines.at(-1) as string).length + 1}`;
    return `${place}${fault.at === text.length ? ', where it ends' : ''}: expected ${fault.expected}`;
  }
}

/* Each returns the index after what it reads, or throws a Fault. `orEnd` is what may stand there too, in words. */

function afterValue(text: string, start: number, orEnd: string): number {
  const at = afterSpace(text, start);
  if (text[at] === '{') return afterItems(text, at + 1, '}', afterMember);
  if (text[at] === '[') return afterItems(text, at + 1, ']', afterValue);
  if (text[at] === '"') return afterText(text, at);
  const after = endOf(SCALAR, text, at);
  if (after === null) throw new Fault(at, `a value${orEnd}`);
  return after;
}

function afterMember(text: string, start: number, orEnd: string): number {
  const at = afterSpace(text, start);
  if (text[at] !== '"') throw new Fault(at, `a key in double quotes${orEnd}`);
  const colon = afterSpace(text, afterText(text, at));
  if (text[colon] !== ':') throw new Fault(colon, '":"');
  return afterValue(text, colon + 1, '');
}

/** Of an object or a list. */
function afterItems(text: string, start: number, end: '}' | ']', afterItem: typeof afterValue): number {
  let at = afterSpace(text, start);
  if (text[at] === end) return at + 1;
  for (let orEnd = ` or "${end}"`; ; orEnd = '') {
    at = afterSpace(text, afterItem(text, at, orEnd));
    if (text[at] === end) return at + 1;
    if (text[at] !== ',') throw new Fault(at, `"," or "${end}"`);
    at += 1;
  }
}

function afterText(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at += 1) {
    const character = text[at] as string;
    if (character === '"') return at + 1;
    if (character < ' ') throw new Fault(at, 'control characters in a text as escapes, such as \\n');
    if (character !== '\\') continue;
    const after = endOf(ESCAPE, text, at);
    if (after === null) throw new Fault(at, 'an escape of JSON after "\\"');
    at = after - 1;
  }
  throw new Fault(text.length, 'the quote that ends a text');
}

function afterSpace(text: string, at: number): number {
  return endOf(SPACE, text, at) as number;
}

/** The index after what matches at a place; null where nothing does. */
function endOf(form: RegExp, text: string, at: number): number | null {
  form.lastIndex = at;
  return form.test(text) ? form.lastIndex : null;
}
