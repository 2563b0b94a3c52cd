/* It imports nothing, so that the pages of the dashboard read it too. */

/**
 * The longest text of each kind. It is checked before the text is parsed, hashed, compared or repeated in an error.
 * A text that is normalised has a bound before (composedText), too. So no value costs more than its request was charged for.
 * This is the only such table: the interfaces, the OpenAPI document and `docs/limits.md` are made from it.
 */
export const INPUT_LIMITS = {
  email: { max: 320, unit: 'characters' },
  authMethod: { max: 64, unit: 'characters' },
  authValue: { max: 1_500, unit: 'bytes' },
  externalId: { max: 255, unit: 'bytes' },
  /** The JSON of a user's metadata. */
  metadata: { max: 4_096, unit: 'bytes' },
  banReason: { max: 500, unit: 'characters' },
  address: { max: 128, unit: 'characters' },
  /** A longer row of digits is still an id, of a user who cannot exist; it is never converted to a number. */
  id: { max: 20, unit: 'digits' },
  /** A whole list of ids in one parameter. */
  ids: { max: 2_100, unit: 'characters' },
  /** Of a page number or a page size. */
  number: { max: 16, unit: 'digits' },
  date: { max: 64, unit: 'characters' },
  cursor: { max: 64, unit: 'characters' },
  /** A whole list of login methods in one parameter. */
  loginMethods: { max: 256, unit: 'characters' },
  /** A whole list of types of changes in one parameter. */
  changeTypes: { max: 256, unit: 'characters' },
  idempotencyKey: { max: 255, unit: 'characters' },
  /** `sha256:` and 64 hexadecimal digits, or the digits alone. */
  documentId: { max: 71, unit: 'characters' },
  appId: { max: 64, unit: 'characters' },
  appSecret: { max: 256, unit: 'characters' },
  projectName: { max: 200, unit: 'characters' },
  secretLabel: { max: 64, unit: 'characters' },
  passkeyName: { max: 64, unit: 'characters' },
  /** 1,023 bytes, as base64url. */
  passkeyId: { max: 1_364, unit: 'characters' },
  /** Each part of what a browser answers for a passkey, as base64url. */
  passkeyAnswer: { max: 4_096, unit: 'characters' },
  webhookUrl: { max: 2_048, unit: 'characters' },
  webhookDescription: { max: 200, unit: 'characters' },
  operatorName: { max: 64, unit: 'characters' },
  /** An actor, in a filter of the audit trail. */
  actor: { max: 128, unit: 'characters' },
  /** A name in a GraphQL document: of an operation, a fragment, a variable, a field or an alias. */
  graphqlName: { max: 128, unit: 'characters' },
  /** Any text in the variables or in the document of a GraphQL request, before the fields look at it. */
  text: { max: 4_096, unit: 'bytes' },
} as const;

/** UTF-8 writes a unit of a text in at most three bytes. */
const MOST_BYTES = 3;

/** The largest answer to one request. A larger one is refused, if possible before it is read, and never cut short. */
export const LARGEST_ANSWER_BYTES = 8 * 2 ** 20;

/** Counts the bytes of an answer only if the number of its characters does not decide it. */
export function isTooLargeAnswer(text: string): boolean {
  if (text.length > LARGEST_ANSWER_BYTES) return true;
  return MOST_BYTES * text.length > LARGEST_ANSWER_BYTES && Buffer.byteLength(text) > LARGEST_ANSWER_BYTES;
}

export type InputKind = keyof typeof INPUT_LIMITS;

/** How long a text may be. */
export interface Bound {
  readonly max: number;
  readonly unit: 'bytes' | 'characters' | 'digits';
}

export function isTooLong(kind: InputKind, text: string): boolean {
  return isLonger(INPUT_LIMITS[kind], text);
}

/** Characters are code points, as for PostgreSQL and JSON Schema. Takes the same time for every text that is too long. */
export function isLonger({ max, unit }: Bound, text: string): boolean {
  if (unit === 'bytes') return text.length > max || (MOST_BYTES * text.length > max && Buffer.byteLength(text) > max);
  // A code point has one or two units.
  return text.length > 2 * max || (text.length > max && Array.from(text).length > max);
}

/** Characters that nobody sees. With them two identities could look like one, which would be a way around a ban. */
export const INVISIBLE = /[\p{Cf}\p{Default_Ignorable_Code_Point}]/u;

/** The most units of a text that NFC makes one of. */
const MOST_COMPOSED = 4;

/** A text trimmed and in NFC, which can be shorter or longer; null where it is too long then, or so long that to normalise it could take seconds. */
export function composedText(kind: InputKind, text: string): string | null {
  return composedWithin(INPUT_LIMITS[kind], text);
}

export function composedWithin(bound: Bound, text: string): string | null {
  if (text.length > MOST_COMPOSED * bound.max) return null;
  const composed = text.trim().normalize('NFC');
  return isLonger(bound, composed) ? null : composed;
}

const ONE_LINE = /^(?=\S)[^\p{C}\p{Zl}\p{Zp}]+(?<=\S)$/u;

/** True for a name for people: printable, on one line, without white space at its ends. */
export function isOneLine(kind: InputKind, text: string): boolean {
  return !isTooLong(kind, text) && ONE_LINE.test(text);
}

/** What is accepted as a name for people, as an error says it: "1 to 64 printable characters on one line". */
export function oneLineForm(kind: InputKind): string {
  const { max } = INPUT_LIMITS[kind];
  return `1 to ${max} printable characters on one line`;
}

/** The bound of a kind, for an error: "at most 320 characters". */
export function atMost(kind: InputKind): string {
  const { max, unit } = INPUT_LIMITS[kind];
  return `at most ${max} ${unit}`;
}

/** The names of operators. */
export const OPERATOR_NAME_FORM = `1 to ${INPUT_LIMITS.operatorName.max} letters (a to z), digits and . _ @ + -, beginning with a letter or a digit`;
