/**
 * What may stand neither in a log nor in an error, whoever wrote it: secrets and personal data that have a form. The lengths are
 * bounded, so that a long text takes time in proportion to its length.
 */
const FORMS: readonly [form: RegExp, word: string][] = [
  [/\buds_[\w-]{8,}/g, '[secret]'],
  [/[^\s"'`<>()[\]{},;:=@]{1,64}@[^\s"'`<>()[\]{},;:=@\\]{1,253}\.[^\s"'`<>()[\]{},;:=@\\.]{2,63}/g, '[email]'],
  [/\bG[A-Z2-7]{55}\b/g, '[address]'],
  [/\b0x[0-9a-f]{40}\b/gi, '[address]'],
];

/** As much of a text as is searched. No error and no line of a log needs more. */
const MAX_LENGTH = 20_000;

/** The text with a word in the place of every secret, email and address; cut off where it is very long. */
export function redact(text: string): string {
  const searched = text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)}…` : text;
  return FORMS.reduce((redacted, [form, word]) => redacted.replace(form, word), searched);
}
