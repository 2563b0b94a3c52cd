import { AppError, badInput } from '../errors.js';
import { atMost, isTooLong } from './input-limits.js';

/* What a caller keeps with a user: a JSON object, of which this service reads nothing. */

const FORM = `a JSON object of ${atMost('metadata')}`;

/** Metadata as JSON text. BAD_USER_INPUT for another value, or what the database would not give back as it was. */
export function parseMetadata(name: string, value: unknown): string {
  if (typeof value !== 'object' || Array.isArray(value)) throw badInput(name, value, FORM);
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

const UNCHANGED =
  'no key __proto__, texts in Unicode without the character U+0000, and whole numbers within 9,007,199,254,740,991; a longer number as text';

function isKept(item: unknown): boolean {
  if (typeof item === 'string') return !/[\0\p{Cs}]/u.test(item);
  return typeof item !== 'number' || (Number.isFinite(item) && (!Number.isInteger(item) || Number.isSafeInteger(item)));
}
