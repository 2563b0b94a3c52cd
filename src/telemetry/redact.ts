/**
 * What must not stand in a log or an error: secrets and personal data with a recognizable form. The lengths are bounded, so that
 * the time grows only with the length of the text.
 */
const FORMS: readonly [form: RegExp, word: string][] = [
  [/\buds_[\w-]{8,}/g, '[secret]'],
  [/\bwhsec_[\w+/=-]{8,}/g, '[secret]'],
  [/[^\s"'`<>()[\]{},;:=@]{1,64}@[^\s"'`<>()[\]{},;:=@\\]{1,253}\.[^\s"'`<>()[\]{},;:=@\\.]{2,63}/g, '[email]'],
  [/\bG[A-Z2-7]{55}\b/g, '[address]'],
  [/\b0x[0-9a-f]{40}\b/gi, '[address]'],
];

/** Only this much of a text is searched and kept. No error and no log line needs more. */
const MAX_LENGTH = 20_000;

/** Replaces each secret, email and address by a word, and cuts a very long text. */
export function redact(text: string): string {
  const searched = text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)}…` : text;
  return FORMS.reduce((redacted, [form, word]) => redacted.replace(form, word), searched);
}
