import { INPUT_LIMITS, INVISIBLE, isTooLong } from './input-limits.js';
import { inSentence } from './spelling.js';
import { type FieldsWith, USER_COLUMNS, type UserColumnsTable } from './user-columns.js';

/*
 * The texts that a caller keeps with a user. A login, a line of an import and `updateUser` give them, and every interface but the REST contract shows
 * them. The pages of the dashboard read this table, too.
 */

/** The columns that are such texts. */
export type KeptText = FieldsWith<{ type: 'text'; from: 'login'; isShown: true; isRare: true; isChangeable: true }>;

interface TextOfUser {
  /** What is accepted, for errors. Its longest is that of the row in `INPUT_LIMITS`, which is checked before. */
  readonly form: string;
  /** The text in the form in which it is stored; null where it is not accepted. */
  readonly stored: (text: string) => string | null;
  /** What people call it. */
  readonly label: string;
  /** The same, of several users: what an export for another system counts as not kept. */
  readonly plural: string;
  /** What it is, for REST, the operators' schema, and the inputs of pages and commands. */
  readonly meaning: string;
  /** Two texts in the form in which they are stored. */
  readonly examples: readonly [string, string];
  /** Its descriptions in the public schema: where it is shown, and where a login and `updateUser` give it. */
  readonly shown: string;
  readonly inLogin: string;
  readonly inUpdate: string;
}

const EXTERNAL_ID_FORM = `text of 1 to ${INPUT_LIMITS.externalId.max} bytes without control or invisible characters, and without white space at its ends`;

/** Whether a text may be the id of a user in the system of the caller. It is compared exactly, and nothing of it is folded. */
export function isExternalId(text: string): boolean {
  return (
    text !== '' &&
    !isTooLong('externalId', text) &&
    text.trim() === text &&
    !/[\p{Cc}\p{Cs}]/u.test(text) &&
    !INVISIBLE.test(text)
  );
}

/** A row for each. A column of the table that has none here is a compile error. */
export const KEPT_TEXTS: { readonly [Field in KeptText]: TextOfUser } = {
  externalId: {
    form: EXTERNAL_ID_FORM,
    stored: (text) => (isExternalId(text) ? text : null),
    label: 'External ID',
    plural: 'external IDs',
    meaning: "The user's ID in your own system",
    examples: ['customer-17', 'Customer:18'],
    shown:
      "The user's ID in your own system, by which `userByExternalId` finds the user; null when none was given to `recordLogin` or to an import. No two users of the project have the same.",
    inLogin: `The user's ID in your own system: 1 to ${INPUT_LIMITS.externalId.max} bytes, compared exactly (upper and lower case differ, nothing is trimmed). It is set once: on a new user, or on one who has none. Fails with \`CONFLICT\`, and records nothing, where the user has another one or another user has this one. The one of a removed user is free again.`,
    inUpdate:
      "The user's ID in your own system. A later login with another one fails. Fails with `CONFLICT` where another user has it.",
  },
};

export const KEPT_FIELDS = Object.keys(KEPT_TEXTS) as readonly KeptText[];

/** What a sentence calls it: "the external ID". */
export const calledInSentence = (field: KeptText) => `the ${inSentence(KEPT_TEXTS[field].label)}`;

/** What it is, for an input in which it is changed: "the user's ID in your own system: logins that bring another one fail". */
export function hintOf(field: KeptText): string {
  const isSetOnce = USER_COLUMNS[field].whenGiven === 'set once';
  return `${inSentence(KEPT_TEXTS[field].meaning)}${isSetOnce ? ': logins that bring another one fail' : ''}`;
}

/** What `updateUser` changes, in words. */
export const CHANGEABLE = `the login email, ${KEPT_FIELDS.map(calledInSentence).join(', ')} or the metadata`;

/** Something for each of them, under its field. */
export function ofKeptTexts<Made>(make: (field: KeptText) => Made): { readonly [Field in KeptText]: Made } {
  const made: Partial<Record<KeptText, Made>> = {};
  for (const field of KEPT_FIELDS) made[field] = make(field);
  return made as Record<KeptText, Made>;
}

type KeptLine = UserColumnsTable[KeptText]['line'];
type KeptLines<Made> = { readonly [Line in KeptLine]: Made };

/** Something for each of them, under its key in the import format and in REST. */
export function ofKeptLines<Made>(make: (field: KeptText, line: KeptLine) => Made): KeptLines<Made> {
  const made: Partial<Record<KeptLine, Made>> = {};
  for (const field of KEPT_FIELDS) {
    const { line } = USER_COLUMNS[field];
    made[line] = make(field, line);
  }
  return made as KeptLines<Made>;
}
