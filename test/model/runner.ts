import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { readFeed } from '#dist/feed/changes.sql.js';
import type { TestApp } from '../support/app.js';
import { ACT_NAMES, ACTS, type Step, stepOf, THEMES } from './acts.js';
import { type Copy, compare, compareCopy, Difference, follow, learn, requireSame } from './compare.js';
import { emptyProject, keepUntouched, type Project, Refused } from './model.js';
import { type Service, serviceOf } from './service.js';

/** Makes random sequences of acts against the service and the model, and shrinks one that differs. */

/** After so many acts everything is asked and compared. The copy is compared after each. */
const COMPARED_EVERY = 20;
const MOST_ACTS = 40;
/** So many are drawn, because many are left out. */
const MOST_DRAWN = 120;
/** A sequence waits for the database and for commands most of its time. */
const AT_ONCE = 8;
/** A sequence takes seconds; one that differs is shrunk for so long. */
const LONGEST_MS = 60_000;
/** The feed is published about so often. */
const PUBLISHED_EVERY_MS = 20;

/** A sequence as a person reads it, and as `steps` of `npm run model` take it. */
export const print = (steps: readonly Step[]) =>
  steps.map(({ name, input }) => `  ${JSON.stringify([name, input])}`).join('\n');

/**
 * Of a hundred acts that the model refuses, so many stay in a sequence, by the code of the refusal. One that names nobody, or says nothing, is the same
 * wherever it stands; one that a ban or another user is in the way of is where faults are.
 */
const REFUSED_STAY: Readonly<Record<string, number>> = { NOT_FOUND: 10, BAD_USER_INPUT: 10 };
const OTHER_REFUSED_STAY = 50;

/** An act as it is drawn; `luck` is below 100. */
export type Drawn = Step & { readonly luck: number };

/** Leaves out most of the acts that are refused where they stand: drawn blindly, they are half of a sequence, and change nothing. */
export function mostlyDone(drawn: readonly Drawn[], most: number): Step[] {
  let project = emptyProject();
  const steps: Step[] = [];
  for (const { luck, ...step } of drawn) {
    const next = structuredClone(project);
    const code = applied(() => ACTS[step.name]?.apply(next, step.input));
    if (code === 'OK' || luck < (REFUSED_STAY[code] ?? OTHER_REFUSED_STAY)) steps.push(step);
    if (steps.length === most) break;
    if (code !== 'OK') continue;
    keepUntouched(project, next);
    nameNewOnes(next);
    project = next;
  }
  return steps;
}

/** A step with its luck. */
export const drawnOf = (steps: fc.Arbitrary<Step>): fc.Arbitrary<Drawn> =>
  fc.tuple(steps, fc.nat(99)).map(([step, luck]) => ({ ...step, luck }));

/** IDs as the service would give them. */
function nameNewOnes(project: Project): void {
  for (const [index, user] of project.users.entries()) user.id ??= `${index + 1}`;
  const { imports } = project;
  if (imports.at(-1) === null) imports[imports.length - 1] = `${imports.length}`;
}

/** Makes an act in the service and in the model, which must agree on how it comes out. Returns the model after it. */
export async function makeAct(service: Service, project: Project, step: Step, place: number) {
  const act = ACTS[step.name];
  if (act === undefined) throw new Error(`There is no act ${step.name}.`);
  const since = Date.now();
  const next = structuredClone(project);
  const right = applied(() => act.apply(next, step.input));
  const outcome = await act.send(service, step.input, project);
  const { code, message, importId } = outcome;
  if (code !== right)
    throw new Difference(`act ${place}, ${step.name}: the service says ${code} (${message}), the model ${right}`);
  if (code !== 'OK') return { project, outcome };
  keepUntouched(project, next);
  if (importId !== undefined) next.imports[next.imports.length - 1] = importId;
  await learn(service, next, since);
  return { project: next, outcome };
}

/** A page waits a second for what is committed to be published; several sequences on a busy machine may take longer. */
async function untilPublished({ config, context: { db } }: TestApp): Promise<void> {
  // Where one session does everything, the page publishes it.
  if (config.db.engine === 'embedded') return;
  const { last } = await readFeed(db);
  for (const since = Date.now(); (await readFeed(db)).published < last; await sleep(PUBLISHED_EVERY_MS))
    if (Date.now() - since > LONGEST_MS) throw new Difference('What is committed is not published.');
}

/** Runs a sequence in a new project; throws at the first difference. */
export async function runSteps(
  app: TestApp,
  steps: readonly Step[],
  count: () => void = () => undefined,
): Promise<void> {
  const service = serviceOf(app, await app.createProject());
  let project = emptyProject();
  const copy: Copy = { cursor: null, users: new Map() };
  /** Whether the end of a ban may still be told, beside any act. */
  let mayTell = false;
  for (const [index, step] of steps.entries()) {
    count();
    const made = await makeAct(service, project, step, index + 1);
    const { code, hasMoved, endedBans } = made.outcome;
    project = made.project;
    if (hasMoved) {
      copy.cursor = null;
      copy.users.clear();
    }
    await untilPublished(app);
    const changes = await follow(service, copy);
    if (endedBans !== undefined) mayTell = endedBans === 'stand';
    if (code !== 'OK' && !mayTell && changes.length > 0)
      throw new Difference(`act ${index + 1}, ${step.name}, was refused, and the feed has ${changes}`);
    compareCopy(copy, project);
    if ((index + 1) % COMPARED_EVERY > 0 && index + 1 < steps.length) continue;
    await compare(service, project);
  }
  requireSame('totals check', await service.wrongTotals(), []);
}

function applied(apply: () => void): string {
  try {
    apply();
    return 'OK';
  } catch (error) {
    if (error instanceof Refused) return error.code;
    throw error;
  }
}

export interface Run {
  readonly acts: number;
  readonly seed: number;
  /** Only these acts; all by default. */
  readonly only?: readonly string[];
  /** Whether a sequence that differs is shrunk, as by default. */
  readonly shrinks?: boolean;
  /** How many sequences run at once. */
  readonly atOnce?: number;
}

/** The steps of a sequence. Three of four sequences have only the acts of a theme, equally often, so that these meet. */
function stepsOf(names: readonly string[], seed: number): fc.Arbitrary<Step> {
  const themes = Object.values(THEMES);
  const theme = themes[seed % themes.length] as readonly string[];
  const few = seed % 4 === 0 ? [] : names.filter((name) => theme.includes(name));
  return few.length === 0 ? stepOf(names) : fc.oneof(...few.map((name) => stepOf([name])));
}

function sequenceOf(names: readonly string[], seed: number): fc.Arbitrary<Step[]> {
  const drawn = fc.array(drawnOf(stepsOf(names, seed)), { minLength: 1, maxLength: MOST_DRAWN, size: 'max' });
  return drawn.map((steps) => mostlyDone(steps, MOST_ACTS));
}

/**
 * Runs sequences, several at once, each in a project of its own, until `acts` acts are made; returns how many these were. Throws with the shrunk sequence
 * that differs.
 */
export async function runModel(app: TestApp, run: Run): Promise<number> {
  const { acts, seed, only = ACT_NAMES, shrinks = true, atOnce = AT_ONCE } = run;
  let made = 0;
  let begun = 0;
  let next = seed;
  /** What differs; nothing begins after it. */
  const differing: { seed: number; after: number; steps: readonly Step[]; error: unknown }[] = [];
  const workOff = async (): Promise<void> => {
    // Acts that have begun count, so that a seed always has the same sequences.
    while (begun < acts && differing.length === 0) {
      const own = next;
      next += 1;
      const [steps = []] = fc.sample(sequenceOf(only, own), sampling(own));
      begun += steps.length;
      const count = () => {
        made += 1;
      };
      await runSteps(app, steps, count).catch((error) => differing.push({ seed: own, after: made, steps, error }));
    }
  };
  await Promise.all(Array.from({ length: atOnce }, workOff));
  const [first] = differing;
  if (first === undefined) return made;
  const { steps, error } = (shrinks ? await shrink(app, only, first.seed) : null) ?? first;
  throw new Error(
    `After ${first.after} acts, with --seed ${first.seed}, this sequence differs:\n${print(steps)}\n${error}`,
  );
}

/** One sequence of a seed. */
const sampling = (seed: number) => ({
  seed,
  numRuns: 1,
  // The first of many runs would be of small values.
  unbiased: true,
});

/** A shorter sequence that differs too; null where the sequence does not differ again. */
async function shrink(app: TestApp, only: readonly string[], seed: number) {
  const property = fc.asyncProperty(sequenceOf(only, seed), (steps) => runSteps(app, steps));
  const { failed, counterexample, errorInstance } = await fc.check(property, {
    ...sampling(seed),
    interruptAfterTimeLimit: LONGEST_MS,
  });
  return failed ? { steps: counterexample?.[0] ?? [], error: errorInstance } : null;
}
