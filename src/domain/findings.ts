/* What a check of `userdir doctor` finds. */

export interface Finding {
  /** Never changes, so that scripts can rely on it. */
  readonly id: string;
  readonly status: 'passed' | 'warning' | 'failed' | 'skipped';
  readonly found: string;
  /** How to solve the problem. */
  readonly advice: string | null;
}

export type Outcome = Omit<Finding, 'id'>;

export const passed = (found: string): Outcome => ({ status: 'passed', found, advice: null });
export const skipped = (found: string): Outcome => ({ status: 'skipped', found, advice: null });
export const warning = (found: string, advice: string): Outcome => ({ status: 'warning', found, advice });
export const failed = (found: string, advice: string): Outcome => ({ status: 'failed', found, advice });
