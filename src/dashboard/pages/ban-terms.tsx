import { type Signal, useSignal } from '@preact/signals';
import { INPUT_LIMITS } from '#dist/domain/input-limits.js';
import { TextField } from './form.js';
import { Time } from './parts.js';

/** Why an identity is banned, and until when: in dialogs that ban, and where a ban is shown. */

interface Terms {
  readonly reason: Signal<string>;
  /** As the browser has it, without an offset. */
  readonly until: Signal<string>;
  /** The present terms of the ban. */
  readonly given?: PresentTerms | undefined;
}

/** The present terms of a ban. */
export interface PresentTerms {
  readonly reason: string | null;
  readonly expiresAt: string | null;
}

/** Terms as they are sent. An empty reason takes it away. */
export interface GivenTerms {
  readonly reason?: string;
  readonly expiresAt?: string;
  readonly untilLifted?: true;
}

/** An instant as an input for it has it: in the time zone of the browser. */
function localTime(instant: string): string {
  const at = new Date(instant);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

const shownEnd = (expiresAt: string | null | undefined) => (expiresAt ? localTime(expiresAt) : '');

export function useTerms(current?: PresentTerms): Terms {
  return { reason: useSignal(current?.reason ?? ''), until: useSignal(shownEnd(current?.expiresAt)), given: current };
}

/** Unchanged terms are left out, so that they undo no change of another operator, nor the terms of an identity that is banned already. */
export function givenTerms({ reason, until, given }: Terms): GivenTerms {
  const why = reason.value.trim();
  return {
    ...(why !== (given?.reason ?? '') && { reason: why }),
    ...(until.value !== shownEnd(given?.expiresAt) &&
      (until.value ? { expiresAt: new Date(until.value).toISOString() } : { untilLifted: true })),
  };
}

/** Terms as `userdir user ban` has them: an empty end takes it away. */
export const commandTerms = ({ reason, expiresAt, untilLifted }: GivenTerms) => ({
  ...(reason !== undefined && { reason }),
  ...((expiresAt !== undefined || untilLifted) && { until: expiresAt ?? '' }),
});

export function TermsFields({ reason, until }: Terms) {
  return (
    <>
      <TextField
        label="Reason"
        hint="for other operators and your backend; may be empty"
        text={reason}
        name="reason"
        maxLength={INPUT_LIMITS.banReason.max}
      />
      <TextField
        label="Until"
        type="datetime-local"
        hint="in the time zone of this browser; empty: no end"
        text={until}
        name="expiresAt"
        title="Until must be in the future."
      />
    </>
  );
}

export function Until({ expiresAt }: Pick<PresentTerms, 'expiresAt'>) {
  return expiresAt ? <Time at={expiresAt} /> : <span class="quiet">no end</span>;
}
