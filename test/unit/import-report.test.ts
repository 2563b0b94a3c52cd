import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fail, finishReport, newReport } from '#dist/users/import-report.js';

/** The report of an import that has failed lines: see docs/importing.md. It is as if all of them were kept and counted at the end. */

const OTHER = 'Other errors.';

interface Failure {
  readonly line: number;
  readonly reason: string;
}

/** The kinds in the order in which they are met, of which the first 20 have a place of their own. */
function kindsOf(failures: readonly Failure[]) {
  const own = [...new Set(failures.map(({ reason }) => reason))].slice(0, 20);
  const kindOf = ({ reason }: Failure) => (own.includes(reason) ? reason : OTHER);
  const kinds = [...new Set(failures.map(kindOf))].map((error) => {
    const lines = failures.filter((failure) => kindOf(failure) === error).map(({ line }) => line);
    return { error, lines: lines.length, first: lines.sort((a, b) => a - b).slice(0, 5) };
  });
  const isRest = ({ error }: { error: string }) => error === OTHER;
  return [
    ...kinds.filter((kind) => !isRest(kind)).sort((a, b) => (a.first[0] as number) - (b.first[0] as number)),
    ...kinds.filter(isRest),
  ];
}

const failures = (count: number, kinds: number) =>
  fc
    .uniqueArray(fc.nat(10_000), { minLength: 1, maxLength: count })
    .chain((lines) => fc.tuple(...lines.map((line) => fc.record({ line: fc.constant(line), kind: fc.nat(kinds) }))))
    .map((all) => all.map(({ line, kind }) => ({ line, reason: `fault ${kind}` })));

test.each([
  [30, 3],
  [120, 18],
  [120, 19],
  [120, 20],
  [120, 30],
])('up to %i failed lines, of up to %i + 1 kinds', (count, kinds) => {
  fc.assert(
    fc.property(failures(count, kinds), (all) => {
      const report = newReport(false);
      for (const { line, reason } of all) fail(report, { line, sourceId: null }, reason);
      const { failed, errors, error_kinds } = finishReport(report);
      const inOrder = all.toSorted((a, b) => a.line - b.line);
      expect(failed).toBe(all.length);
      expect(errors).toEqual(inOrder.map(({ line, reason }) => ({ line, error: reason })));
      expect(error_kinds).toEqual(kindsOf(all));
    }),
    { numRuns: 60 },
  );
});

test.each([999, 1_000, 1_001, 2_000, 2_001, 5_000])(
  'of %i failed lines, the first 1,000 are told, and all are counted',
  (count) => {
    // Not in their order: those that are read wrongly come first.
    const lines = Array.from({ length: count }, (_, n) => (n * 7_919) % count);
    const report = newReport(false);
    for (const line of lines) fail(report, { line, sourceId: null }, 'wrong');
    const { failed, errors, error_kinds } = finishReport(report);
    expect(failed).toBe(count);
    expect(errors.map(({ line }) => line)).toEqual(Array.from({ length: Math.min(count, 1_000) }, (_, n) => n));
    expect(error_kinds).toEqual([{ error: 'wrong', lines: count, first: [0, 1, 2, 3, 4] }]);
  },
);

test.each([499, 500, 501])('a reason of %i characters is told up to 500', (length) => {
  const report = newReport(true);
  fail(report, { line: 3, sourceId: 'x'.repeat(300) }, 'r'.repeat(length));
  const error = length <= 500 ? 'r'.repeat(length) : `${'r'.repeat(500)}…`;
  expect(report.errors).toEqual([{ line: 3, error }]);
  expect(report.error_kinds).toEqual([{ error, lines: 1, first: [3] }]);
  expect(report.failures).toEqual([{ line: 3, source_id: 'x'.repeat(255), user_id: null, outcome: 'failed', error }]);
});
