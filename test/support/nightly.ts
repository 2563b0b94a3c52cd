/**
 * Whether this is `npm run nightly`, which runs before a release: every test, each on both engines. `.ci/run` leaves out what this marks: long
 * tests of a kind of which a shorter one always runs.
 */
export const isNightly: boolean = process.env['NIGHTLY'] === 'yes';
