import { toUnicode } from 'tr46';
import { badInput } from '../errors.js';
import { atMost, composedText, isTooLong } from './input-limits.js';

/* Emails: how they are compared, and why one is refused. */

const EMAIL_FORM = 'an email address';
/** The most characters of a mailbox that `EMAIL` accepts. */
const MAX_MAILBOX = 64;
// Letters of any script; no white space, quotes or control characters, no empty domain label.
const EMAIL = /^[^\s@"\p{Cc}\p{Cs}]{1,64}@[^\s@".\p{Cc}\p{Cs}]+(\.[^\s@".\p{Cc}\p{Cs}]+)*$/u;

/** With invisible characters two identities could look like one, which would be a way around a ban. */
export const INVISIBLE = /[\p{Cf}\p{Default_Ignorable_Code_Point}]/u;

/** An email as it is compared: trimmed, mailbox in NFC and lower case, domain in Unicode by IDNA. Null for no email, or invisible characters. */
export function foldEmail(text: string): string | null {
  const whole = composedText('email', text) ?? '';
  const at = whole.lastIndexOf('@');
  if (at === -1) return null;
  const mailbox = foldCase(whole.slice(0, at));
  const { domain, isValid } = foldDomain(whole.slice(at + 1));
  const folded = `${mailbox}@${domain}`;
  return isValid && EMAIL.test(folded) && !isTooLong('email', folded) && !INVISIBLE.test(mailbox) ? folded : null;
}

/** Letter by letter, so that the fold of a text begins with the fold of its beginning: a sigma is one letter, also at the end of a word. */
export function foldCase(text: string): string {
  return text.normalize('NFC').toLowerCase().replaceAll('ς', 'σ').normalize('NFC');
}

/**
 * `Bücher.example`, `xn--bcher-kva.example` and `bücher。example` are one domain (IDNA, UTS 46). In a domain, ς and σ are two letters.
 * Folded emails are stored, so a library folds them: each release of Node.js has other tables.
 */
export function foldDomain(text: string): { readonly domain: string; readonly isValid: boolean } {
  const composed = text.normalize('NFC');
  if (/^[!-~]*$/.test(composed) && !/xn--/i.test(composed)) return { domain: composed.toLowerCase(), isValid: true };
  const { domain, error } = toUnicode(composed, { checkJoiners: true });
  return { domain, isValid: !error && !/[^\w.\x80-\u{10ffff}-]/u.test(domain) };
}

/** The folded email, or BAD_USER_INPUT. `aboutBlanks` is what else an error says of them. */
export function requireEmail(name: string, text: string, aboutBlanks = ''): string {
  const folded = foldEmail(text);
  if (folded !== null) return folded;
  throw badInput(name, text, EMAIL_FORM + hintOf(text, aboutBlanks));
}

/** The probable fault of a text that is no email. */
function hintOf(text: string, aboutBlanks: string): string {
  if (composedText('email', text) === null) return ` of ${atMost('email')}`;
  if (text.trim().indexOf('@') > MAX_MAILBOX) return ` with at most ${MAX_MAILBOX} characters before the @`;
  return text.trim().includes(' ') ? ` without blanks${aboutBlanks}` : '';
}
