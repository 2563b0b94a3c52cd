import { Mismatch } from './answers.js';
import { authenticationChecks } from './authentication.js';
import { deleteChecks } from './delete.js';
import { envelopeChecks } from './envelope.js';
import { fieldChecks } from './fields.js';
import { filterChecks } from './filters.js';
import { listAndCountChecks } from './list.js';
import { projectChecks } from './projects.js';
import { searchAndGetChecks } from './search.js';
import { type Check, createTarget, NotObservable, type Target, type TargetOptions } from './target.js';
import { verifyChecks } from './verify.js';

/**
 * Checks that any server can be tested with: one for each sentence of the REST contract that can be observed from outside. This folder
 * imports nothing of the service but the address parser. The checks that delete a user come last, because the others need users.
 */
export const CHECKS: readonly Check[] = [
  ...authenticationChecks,
  ...projectChecks,
  ...envelopeChecks,
  ...fieldChecks,
  ...listAndCountChecks,
  ...filterChecks,
  ...searchAndGetChecks,
  ...verifyChecks,
  ...deleteChecks,
];

/** The part of the IDs before the first slash. */
export const GROUPS: readonly string[] = [...new Set(CHECKS.map(({ id }) => id.replace(/\/.*/, '')))];

/** The checks whose ID or group is in `asked`, or starts with an item that ends with `*`; and the items that match no check. */
export function chooseChecks(asked: readonly string[]): { checks: Check[]; unknown: string[] } {
  const matches = (id: string, name: string) =>
    name.endsWith('*') ? id.startsWith(name.slice(0, -1)) : id === name || id.startsWith(`${name}/`);
  return {
    checks: CHECKS.filter(({ id }) => asked.some((name) => matches(id, name))),
    unknown: asked.filter((name) => !CHECKS.some(({ id }) => matches(id, name))),
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
  /** False if the run was stopped before the last check. */
  readonly complete: boolean;
  readonly checks: readonly Verdict[];
}

/** Runs checks one after the other and passes on each verdict. Throws if the server cannot be reached or refuses the credentials. */
export async function checkConformance(
  options: TargetOptions,
  checks: readonly Check[],
  onVerdict: (verdict: Verdict) => void,
): Promise<Report> {
  const target = createTarget(options);
  await requireReachable(() => target.ask('/server/users?limit=1'));
  const verdicts: Verdict[] = [];
  for (const check of checks) {
    const verdict = await runCheck(check, target);
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
    if (error instanceof Mismatch) throw new Error(`The server cannot be reached: ${error.message}.`);
    throw new Error('The server did not answer before the timeout.', { cause: error });
  });
  if (answer.status === 401) throw new Error('The server refuses the App ID or the App Secret (401).');
}

async function runCheck({ id, sentence, run }: Check, target: Target): Promise<Verdict> {
  const { signal } = target.options;
  try {
    signal.throwIfAborted();
    await run(target);
    return { id, sentence, status: 'passed' };
  } catch (error) {
    if (signal.aborted) return { id, sentence, status: 'skipped', reason: 'stopped by the timeout' };
    if (error instanceof NotObservable) return { id, sentence, status: 'skipped', reason: error.message };
    // A check that does not expect the form of an answer must not stop the other checks.
    if (!(error instanceof Mismatch))
      return {
        id,
        sentence,
        status: 'failed',
        request: '',
        expected: 'an answer that the check can read',
        arrived: String(error),
      };
    const { request, expected, arrived } = error;
    return { id, sentence, status: 'failed', request, expected, arrived };
  }
}
