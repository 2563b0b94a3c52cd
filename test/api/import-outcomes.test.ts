import { Readable } from 'node:stream';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MAX_ACCOUNTS } from '#dist/domain/identities.js';
import { stellarAddress } from '../support/addresses.js';
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

const accountsOf = (count: number, first: number): Json[] =>
  Array.from({ length: count }, (_, n) => ({ network: 'stellar', public_key: stellarAddress(first + n) }));
const google = (value: string): Json => ({ auth_method: 'google', auth_value: value });

/** One user can get no further account, another has a linked identity, and a third has nothing. */
const EXISTING: readonly Json[] = [
  { auth_method: 'passkey', auth_value: 'ada', external_id: 'x-ada', accounts: accountsOf(MAX_ACCOUNTS, 1_000) },
  { auth_method: 'passkey', auth_value: 'bob', identities: [google('g-bob')] },
  { auth_method: 'passkey', auth_value: 'cleo' },
];

/** A line gives what no other line of the file gives, or what a user has. */
const givenOf = (name: string, n: number) =>
  fc.record({
    auth_method: fc.constant('passkey'),
    auth_value: fc.constant(name),
    external_id: fc.constantFrom(null, 'x-ada', `x-${name}`),
    accounts: fc.constantFrom([], accountsOf(1, 1_000), accountsOf(1, 2_000 + n), accountsOf(2, 3_000 + 2 * n)),
    identities: fc.constantFrom([], [google('g-bob')], [google(`g-${name}`)]),
    metadata: fc.constantFrom(null, { plan: name }),
  });

/** True for lines of which the first would take what the second gives. */
const isOfOne = (one: Json, other: Json): boolean =>
  (one.external_id !== null && one.external_id === other.external_id) ||
  other.identities.some(({ auth_value }: Json) => auth_value === one.identities[0]?.auth_value);

test('a dry run tells what the import does with each line that gives nothing of another one', async () => {
  const { projects, transfers } = app.context.services;
  const lines = fc.tuple(...NAMES.map(givenOf));
  const how = fc.constantFrom('fail', 'skip', 'update', 'replace' as const);
  await fc.assert(
    fc.asyncProperty(lines, how, async (given, onConflict) => {
      const project = await app.createProject();
      await project.importLines([...EXISTING]);
      // Two lines of one file never give one external ID or one identity.
      const file = given.filter((one, place) => !given.slice(0, place).some((other) => isOfOne(one, other)));
      const bytes = Readable.from(file.map((line) => Buffer.from(`${JSON.stringify(line)}\n`)));
      const options = {
        onConflict,
        skipInvalid: true,
        progress: () => undefined,
        signal: new AbortController().signal,
      };
      const told = await transfers.checkImport(await projects.getScope(project.appId), bytes, options);
      const { import_id: _, ...done } = (await project.importLines(file, options)) as Json;
      expect({ ...told, import_id: undefined }).toEqual({ ...done, import_id: undefined });
    }),
    { numRuns: 25 },
  );
});
