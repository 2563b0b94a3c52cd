/** What a check of `userdir doctor` has found. */

export interface Finding {
  /** Never changes, so that scripts can rely on it. */
  readonly id: string;
  readonly status: 'passed' | 'warning' | 'failed' | 'skipped';
  readonly found: string;
  /** How to solve the problem. */
  readonly advice: string | null;
}

export const passed = (id: string, found: string): Finding => ({ id, status: 'passed', found, advice: null });
export const skipped = (id: string, found: string): Finding => ({ id, status: 'skipped', found, advice: null });
export const warning = (id: string, found: string, advice: string): Finding => ({
  id,
  status: 'warning',
  found,
  advice,
});
export const failed = (id: string, found: string, advice: string): Finding => ({ id, status: 'failed', found, advice });

/** The limit of a check. node-postgres has this option; its types lack it. */
export const QUERY_TIMEOUT = { query_timeout: 10_000 };
