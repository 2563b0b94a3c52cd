import { filterChecks } from './filter-checks.js';
import { lookupChecks } from './lookup-checks.js';
import { removalChecks } from './removal-checks.js';
import { resourceChecks } from './resource-checks.js';
import { routeChecks } from './route-checks.js';
import { type Check, createTarget, Mismatch, type TargetOptions, Unobservable } from './target.js';
import { usersChecks } from './users-checks.js';

/**
 * The contract of the REST interface, sentence by sentence, as far as it can be observed from outside. What is to be deleted
 * comes last, because the other checks look at the users who are there.
 */
export const CHECKS: readonly Check[] = [
  ...routeChecks,
  ...resourceChecks,
  ...usersChecks,
  ...filterChecks,
  ...lookupChecks,
  ...removalChecks,
];

/** What stands before the first slash of the ids. */
export const GROUPS: readonly string[] = [...new Set(CHECKS.map(({ id }) => id.replace(/\/.*/, '')))];

/** The checks that are asked for by id, by group, or by what stands before a `*`; and what names none. */
export function chooseChecks(asked: readonly string[]): { checks: Check[]; unknown: string[] } {
  const isOf = (id: string, name: string) =>
    name.endsWith('*') ? id.startsWith(name.slice(0, -1)) : id === name || id.startsWith(`${name}/`);
  return {
    checks: CHECKS.filter(({ id }) => asked.some((name) => isOf(id, name))),
    unknown: asked.filter((name) => !CHECKS.some(({ id }) => isOf(id, name))),
  };
}

export type Verdict = { readonly id: string; readonly sentence: string } & (
  | { readonly status: 'passed' }
  | { readonly status: 'failed'; readonly request: string; readonly expected: string; readonly arrived: string }
  | { readonly status: 'skipped'; readonly reason: string }
);

export interface Report {
  readonly url: string;
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** False where the time was up before the last check. */
  readonly complete: boolean;
  readonly checks: readonly Verdict[];
}

/** Runs checks one after the other and tells each verdict when it is there. Throws where the server cannot be asked at all. */
export async function checkConformance(
  options: TargetOptions,
  checks: readonly Check[],
  onVerdict: (verdict: Verdict) => void,
): Promise<Report> {
  const target = createTarget(options);
  await requireReachable(() => target.ask('/server/users?limit=1'));
  const verdicts: Verdict[] = [];
  for (const check of checks) {
    const verdict = await judge(check, () => check.run(target), options.signal);
    verdicts.push(verdict);
    onVerdict(verdict);
  }
  const count = (status: Verdict['status']) => verdicts.filter((verdict) => verdict.status === status).length;
  return {
    url: options.url,
    passed: count('passed'),
    failed: count('failed'),
    skipped: count('skipped'),
    complete: !options.signal.aborted,
    checks: verdicts,
  };
}

async function requireReachable(ask: () => Promise<{ status: number }>): Promise<void> {
  const answer = await ask().catch((error: unknown) => {
    if (error instanceof Mismatch) throw new Error(`The server cannot be asked: ${error.message}.`);
    throw new Error('The time was up before the server had answered.', { cause: error });
  });
  if (answer.status === 401) throw new Error('The server refuses the App ID or the App Secret (401).');
}

async function judge({ id, sentence }: Check, run: () => Promise<void>, signal: AbortSignal): Promise<Verdict> {
  try {
    signal.throwIfAborted();
    await run();
    return { id, sentence, status: 'passed' };
  } catch (error) {
    if (signal.aborted) return { id, sentence, status: 'skipped', reason: 'the time was up' };
    if (error instanceof Unobservable) return { id, sentence, status: 'skipped', reason: error.message };
    // Whatever a server answers, the other checks are to be made too.
    if (!(error instanceof Mismatch))
      return {
        id,
        sentence,
        status: 'failed',
        request: '',
        expected: 'an answer of some form',
        arrived: String(error),
      };
    const { request, expected, arrived } = error;
    return { id, sentence, status: 'failed', request, expected, arrived };
  }
}
