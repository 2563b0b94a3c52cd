import { AppError } from '../errors.js';
import { type KeptTextsInput, type ProfileInput, readKeptText, requireEmail } from './identities.js';
import { ofKeptTexts } from './kept-texts.js';
import { parseMetadata } from './metadata.js';
import { readAll } from './parse.js';
import type { Spelling } from './spelling.js';
import { type FieldsWith, selectColumns } from './user-columns.js';

type ChangeableField = FieldsWith<{ isChangeable: true }>;

/** New values of a user: an absent field stays, and null takes it away. The metadata are JSON text. */
export type NewValues = { readonly [Field in ChangeableField]?: string | null };

/** Changes of a user. A patch of the metadata is JSON text. */
export interface UserChanges extends NewValues {
  readonly metadataPatch?: string;
}

/** Changes as they arrive. */
interface ChangesInput extends Pick<ProfileInput, 'email' | 'metadata'>, KeptTextsInput {
  readonly metadataPatch?: unknown;
}

type Reader = (input: ChangesInput, spelling: Spelling) => string | null | undefined;

const READERS: { readonly [Field in ChangeableField]: Reader } = {
  saidEmail: ({ email }) => (email == null ? email : requireEmail('email', email)),
  metadata: ({ metadata }) => (metadata == null ? metadata : parseMetadata('metadata', metadata)),
  ...ofKeptTexts(
    (field): Reader =>
      (input, spelling) =>
        readKeptText(field, input, spelling),
  ),
};

/** In the order of the table, by which a retry is compared: a new column comes last. */
const CHANGEABLE = selectColumns(({ isChangeable }) => isChangeable === true).map(({ field, line = '' }) => ({
  field: field as ChangeableField,
  line,
}));

/** A merge patch (RFC 7396) of the metadata, bounded as they are. */
function readPatch({ metadata, metadataPatch }: ChangesInput): string | undefined {
  if (metadataPatch === undefined) return undefined;
  const patch = parseMetadata('metadataPatch', metadataPatch);
  if (metadata === undefined) return patch;
  throw new AppError('BAD_USER_INPUT', 'metadataPatch: expected none together with metadata, which replaces all.');
}

/** Changes as they arrive. BAD_USER_INPUT names the field of the caller. */
export function parseUserChanges(input: ChangesInput, spelling: Spelling): UserChanges {
  const [metadataPatch, ...values] = readAll(
    () => readPatch(input),
    ...CHANGEABLE.map(
      ({ field }) =>
        () =>
          READERS[field](input, spelling),
    ),
  );
  const given = [
    ...CHANGEABLE.map(({ field }, place) => [field, values[place]] as const),
    ['metadataPatch', metadataPatch] as const,
  ];
  const changes = given.filter(([, value]) => value !== undefined);
  if (changes.length > 0) return Object.fromEntries(changes);
  const names = CHANGEABLE.map(({ line }) => spelling(line));
  const last = names.pop();
  throw new AppError('BAD_USER_INPUT', `Nothing to change: expected ${names.join(', ')} or ${last}.`);
}

export function emailIsIdentity(): AppError {
  return new AppError(
    'BAD_USER_INPUT',
    'email: this user logs in by email, so it can be changed, but not taken away. Unlink the identity, or remove the user.',
  );
}
