/* Whether one name may be a misspelling of another. */

/** True if one name may be a misspelling of another. The letters that may differ are two; in a short name one: other short names are that similar. */
export function isAlike(name: string, other: string): boolean {
  return distanceBetween(name, other) <= (other.length < 8 ? 1 : 2);
}

/** The letters to add, remove, replace or swap with a neighbour to turn one name into the other. Infinite if the lengths alone show too many. */
export function distanceBetween(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > 2) return Number.POSITIVE_INFINITY;
  const rows = Array.from({ length: a.length + 1 }, (_, i) => [i]);
  const at = (i: number, j: number) => rows[i]?.[j] ?? 0;
  for (let j = 1; j <= b.length; j += 1) rows[0]?.push(j);
  for (let i = 1; i <= a.length; i += 1) {
    for (let j = 1; j <= b.length; j += 1) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const best = Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + same);
      rows[i]?.push(swapped ? Math.min(best, at(i - 2, j - 2) + 1) : best);
    }
  }
  return at(a.length, b.length);
}
