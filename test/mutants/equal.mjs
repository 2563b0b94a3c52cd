/**
 * Changes that are equal in effect: no caller could tell them apart. `file` and a piece of the line, what stands there and what is put in
 * its place, as `npm run mutants` prints them, and why.
 */
export const EQUAL = [];
