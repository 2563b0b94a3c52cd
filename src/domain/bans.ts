import { AppError, badInput } from '../errors.js';
import type { Identity } from './identities.js';
import { atMost, composedText, isTooLong } from './input-limits.js';
import { dateForm, LATEST, parseDate, readAll } from './parse.js';
import type { BanState } from './users.js';

/* Bans of users and of identities, and their terms as they arrive. */

/** An operator's terms of a ban. Without an end it stays until it is lifted. */
export interface BanTerms {
  readonly reason: string | null;
  readonly expiresAt: Date | null;
}

/** Absent terms stay as they are, where the user or the identity is banned. */
export type GivenBanTerms = Partial<BanTerms>;

/** An identity that can neither log in nor register. */
export interface Ban extends Identity, BanState {
  /** True for the ban of a user, which covers each of their identities; false for a ban of the identity. */
  readonly isOfUser: boolean;
}

/** A ban in a list, with the id of its place there. */
export interface ListedBan extends Ban {
  readonly id: number;
}

/** A ban in a list of operators, with the user whose ban it is: current or removed; null for the ban of an identity. */
export interface OwnedBan extends ListedBan {
  readonly bannedUserId: number | null;
}

/** A ban as an import writes it; without an instant it begins now. */
export interface BanRecord extends Identity, BanTerms {
  readonly createdAt: Date | null;
  /** True for a ban of the user who has the identity. */
  readonly isOfUser: boolean;
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

/** The terms of a ban as a caller gives them. Null is as absent. */
export interface BanInput {
  /** A blank one takes the reason away. */
  readonly reason?: string | null | undefined;
  readonly end?: string | null | undefined;
  /** True takes the end away. */
  readonly untilLifted?: boolean | null | undefined;
}

/** The terms that are given: null for no reason, or no end. BAD_USER_INPUT, with the name that the caller has for the end. */
export function parseBanTerms({ reason: text, end, untilLifted }: BanInput, endName: string): GivenBanTerms {
  const [reason, expiresAt] = readAll(
    () => parseBanReason('reason', text),
    () => (end == null ? null : parseBanEnd(endName, end)),
  );
  if (end != null && untilLifted === true)
    throw new AppError('BAD_USER_INPUT', `${endName}: a ban that stays until it is lifted has no end.`, {
      subject: { names: [endName, 'untilLifted'] },
    });
  return {
    ...(text != null && { reason }),
    ...(end != null && { expiresAt }),
    ...(untilLifted === true && { expiresAt: null }),
  };
}

function parseBanEnd(name: string, text: string): Date {
  const end = isTooLong('date', text) ? null : parseDate(text, 'last');
  if (end !== null && end.getTime() > Date.now() && end <= LATEST) return end;
  throw badInput(name, text, dateForm(text, BAN_END_FORM));
}
