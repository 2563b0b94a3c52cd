import { AppError, badInput } from '../errors.js';
import { atMost, isTooLong } from './input-limits.js';

/* What a caller keeps with a user: a JSON object, of which this service reads nothing. */

const FORM = `a JSON object of ${atMost('metadata')}`;

/** Metadata as JSON text. BAD_USER_INPUT for another value, or what the database would not give back as it was. */
export function parseMetadata(name: string, value: unknown): string {
  if (!isObject(value)) throw badInput(name, value, FORM);
  const text = JSON.stringify(value, (key, item) => {
    if (key === '__proto__' || !isKept(key) || !isKept(item))
      throw new AppError(
        'BAD_USER_INPUT',
        `${name}: ${key === '' ? 'a value' : `"${key.slice(0, 64)}"`} cannot be kept. Expected ${UNCHANGED}.`,
      );
    return item;
  });
  if (isTooLong('metadata', text))
    throw new AppError('BAD_USER_INPUT', `${name}: got ${Buffer.byteLength(text)} bytes of JSON, expected ${FORM}.`);
  return text;
}

/** Metadata, or none, after a merge patch (RFC 7396), both checked (`parseMetadata`). BAD_USER_INPUT where they would be too long. */
export function patchMetadata(name: string, metadata: object | null, patch: string): string {
  const text = JSON.stringify(merged(metadata, JSON.parse(patch)));
  if (!isTooLong('metadata', text)) return text;
  const bytes = Buffer.byteLength(text);
  throw new AppError('BAD_USER_INPUT', `${name}: the metadata would have ${bytes} bytes of JSON, expected ${FORM}.`);
}

/** An object of the patch is merged with what is there, a null of it removes the key, and any other value takes its place. */
function merged(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const result = new Map(Object.entries(isObject(target) ? target : {}));
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) result.delete(key);
    else result.set(key, merged(result.get(key), value));
  }
  return Object.fromEntries(result);
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const UNCHANGED =
  'no key __proto__, texts in Unicode without the character U+0000, and whole numbers within 9,007,199,254,740,991; a longer number as text';

function isKept(item: unknown): boolean {
  if (typeof item === 'string') return !/[\0\p{Cs}]/u.test(item);
  return typeof item !== 'number' || (Number.isFinite(item) && (!Number.isInteger(item) || Number.isSafeInteger(item)));
}
