import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Json, useTestApp } from '../support/app.js';

/** What became of each line of an import, against what a person would say who reads the file from the top. */

const app = useTestApp();

const CONFLICTS = ['fail', 'skip', 'update'] as const;
type OnConflict = (typeof CONFLICTS)[number];

/** A line names a person, and has a plan of theirs or is wrong. */
interface Line {
  readonly name: string;
  readonly plan: string | null | 'wrong';
}

const NAMES = ['ada', 'bob', 'cleo', 'dora', 'eve'];
/** These exist before, without a plan. */
const KNOWN = ['ada', 'bob'];

const lineOf = ({ name, plan }: Line): Json => ({
  auth_method: 'passkey',
  auth_value: name,
  ...(plan === 'wrong' ? { created_at: 'soon' } : { metadata: plan && { plan } }),
});

/**
 * What becomes of the lines where each is taken by itself: no name is there twice. Unless invalid lines are skipped, a file with a wrong line is not
 * compared with the users.
 */
function outcomesOf(lines: readonly Line[], onConflict: OnConflict, skipInvalid: boolean): string[] {
  const isCompared = skipInvalid || lines.every(({ plan }) => plan !== 'wrong');
  return lines.map(({ name, plan }) => {
    if (plan === 'wrong') return 'failed';
    if (!KNOWN.includes(name)) return 'created';
    if (onConflict === 'fail') return isCompared ? 'failed' : 'created';
    if (onConflict === 'skip') return 'skipped';
    return plan === null ? 'unchanged' : 'updated';
  });
}

test('is told for each of them, in their order, with the user; of a file that is refused, only which lines are wrong', async () => {
  const some = fc.uniqueArray(
    fc.record({ name: fc.constantFrom(...NAMES), plan: fc.constantFrom(null, 'pro', 'wrong') }),
    { selector: ({ name }) => name, minLength: 1 },
  );
  await fc.assert(
    fc.asyncProperty(some, fc.constantFrom(...CONFLICTS), fc.boolean(), async (lines, onConflict, skipInvalid) => {
      const project = await app.createProject();
      await project.addUsers(...KNOWN.map((name) => lineOf({ name, plan: null })));
      const told: Json[] = [];
      const tell = async (outcomes: readonly Json[]) => void told.push(...outcomes);
      const report = await project.importLines(lines.map(lineOf), { onConflict, skipInvalid, tell });

      const outcomes = outcomesOf(lines, onConflict, skipInvalid);
      const isDone = skipInvalid || !outcomes.includes('failed');
      const { data } = await project.graphql('{ users(first: 100) { nodes { id authValue } } }');
      const ids = new Map(data.users.nodes.map(({ id, authValue }: Json) => [authValue, Number(id)]));
      const right = lines.flatMap(({ name }, index) => {
        const outcome = outcomes[index] as string;
        if (!isDone && outcome !== 'failed') return [];
        return [{ line: index + 1, source_id: null, user_id: outcome === 'failed' ? null : ids.get(name), outcome }];
      });
      const inOrder = told.sort((one, other) => one.line - other.line);
      expect(inOrder.map(({ error: _, ...outcome }) => outcome)).toEqual(right);
      for (const { outcome, error } of inOrder) expect(error !== undefined).toBe(outcome === 'failed');

      const count = (wanted: string) => (isDone ? outcomes.filter((outcome) => outcome === wanted).length : 0);
      const failed = outcomes.filter((outcome) => outcome === 'failed').length;
      expect(report).toMatchObject({
        imported: count('created') + count('updated') + count('unchanged'),
        failed,
        errors: inOrder.flatMap(({ line, error }) => (error === undefined ? [] : [{ line, error }])),
      });
      if (isDone) {
        const names = ['created', 'updated', 'unchanged', 'skipped'] as const;
        expect(names.map((name) => report[name])).toEqual(names.map(count));
      }
    }),
    { numRuns: 60 },
  );
});
