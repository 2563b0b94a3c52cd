import { AppError } from '../errors.js';
import { MAX_ACCOUNTS } from './identities.js';

/** What one login or line brings may not be too much by itself: its wallet counts beside the accounts that it lists. */
export function requireFewAccounts({ accounts }: { readonly accounts: readonly unknown[] }): void {
  if (accounts.length > MAX_ACCOUNTS) throw tooManyAccounts(accounts.length);
}

/** The refusal of a user who would have so many. */
export function tooManyAccounts(count: number | string): AppError {
  return new AppError('BAD_USER_INPUT', `accounts: the user would have ${count}, expected at most ${MAX_ACCOUNTS}.`);
}

/** What the database has refused for that reason, as a refusal; any other failure as it is. */
export function explainAccounts(error: unknown): unknown {
  const { constraint, detail } = error as { constraint?: unknown; detail?: unknown };
  return constraint === 'accounts_are_at_most_100' ? tooManyAccounts(String(detail)) : error;
}
