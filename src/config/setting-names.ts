import type { Environment } from './config.js';
import { SETTINGS } from './settings.js';

/** How many letters may differ. In a short name only one: variables of other programs are often that similar. */
const differencesAllowed = (name: string) => (name.length < 8 ? 1 : 2);

/** Finds variables that look like a misspelt setting: for each, a sentence with the setting that is probably meant. */
export function findMisspelt(env: Environment): string[] {
  const names = Object.keys(env).filter((name) => env[name] && !SETTINGS.includes(name));
  return names.flatMap((name) => {
    const likely = nearest(name.toUpperCase());
    return likely === null ? [] : [`${name} is not a setting and is ignored. Did you mean ${likely}?`];
  });
}

function nearest(name: string): string | null {
  const near = SETTINGS.map((setting) => ({ setting, distance: distanceBetween(name, setting) }))
    .filter(({ setting, distance }) => distance <= differencesAllowed(setting))
    .sort((a, b) => a.distance - b.distance);
  return near[0]?.setting ?? null;
}

/**
 * How many letters must be added, removed, replaced or swapped with their neighbour to turn one name into the other.
 * Infinite if the lengths alone show that it is too many.
 */
function distanceBetween(a: string, b: string): number {
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
