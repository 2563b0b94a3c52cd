import { badInput } from '../errors.js';
import type { Identity } from './identities.js';
import { atMost, composedText, isTooLong } from './input-limits.js';
import { dateForm, LATEST, parseDate, readAll } from './parse.js';
import type { BanState } from './users.js';

/* Bans of identities, and their terms as they arrive. */

/** An operator's terms of a ban. Without an end it stays until it is lifted. */
export interface BanTerms {
  readonly reason: string | null;
  readonly expiresAt: Date | null;
}

/** Absent terms stay as they are, where the identity is banned. */
export type GivenBanTerms = Partial<BanTerms>;

/** An identity that can neither log in nor register. */
export interface Ban extends Identity, BanState {
  /** True where the whole user is banned, by each of their identities. */
  readonly isOfUser: boolean;
}

/** A ban in a list, with the id of its place there. */
export interface ListedBan extends Ban {
  readonly id: number;
}

/** A ban as an import writes it; without an instant it begins now. */
export interface BanRecord extends Identity, BanTerms {
  readonly createdAt: Date | null;
}

const BAN_REASON_FORM = `text of ${atMost('banReason')} on one line, in NFC`;

/** The reason of a ban as it is stored, null where the text is blank; or BAD_USER_INPUT. */
export function parseBanReason(name: string, text: string | null | undefined): string | null {
  if (text == null) return null;
  const reason = composedText('banReason', text);
  if (reason !== null && !/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u.test(reason)) return reason === '' ? null : reason;
  throw badInput(name, text, BAN_REASON_FORM);
}

const BAN_END_FORM = 'a date (2026-01-31, through its last instant) or an RFC 3339 date-time that is still to come';

/** The reason and the end of a ban, null for none; or BAD_USER_INPUT that names the field of the caller. */
export function parseBanTerms(
  input: { readonly reason?: string | null | undefined; readonly end?: string | null | undefined },
  endName: string,
): GivenBanTerms {
  const { reason: text, end } = input;
  const [reason, expiresAt] = readAll(
    () => parseBanReason('reason', text),
    () => (end == null ? null : parseBanEnd(endName, end)),
  );
  return { ...(text !== undefined && { reason }), ...(end !== undefined && { expiresAt }) };
}

function parseBanEnd(name: string, text: string): Date {
  const end = isTooLong('date', text) ? null : parseDate(text, 'last');
  if (end !== null && end.getTime() > Date.now() && end <= LATEST) return end;
  throw badInput(name, text, dateForm(text, BAN_END_FORM));
}
