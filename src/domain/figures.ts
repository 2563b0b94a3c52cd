/* Numbers and lengths of time, as sentences name them. */

/** A number, such as 10,000. */
export const inFigures = (count: number) => count.toLocaleString('en');

const UNITS = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
] as const;

/** A length in milliseconds, of whole minutes: "30 days", "1 hour", "90 minutes". */
export function inWords(ms: number): string {
  const [name, unit] = UNITS.find(([, length]) => ms % length === 0) ?? UNITS[2];
  const count = ms / unit;
  return `${count} ${name}${count === 1 ? '' : 's'}`;
}
