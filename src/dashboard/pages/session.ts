import { signal } from '@preact/signals';

export type Role = 'ADMIN' | 'SUPPORT' | 'VIEWER';

export interface Me {
  readonly name: string;
  readonly role: Role;
  readonly sessionId: string;
  readonly expiresAt: string;
  readonly idleMinutes: number;
  readonly version: string;
}

/** The operator who is signed in; null: not signed in; undefined: not known yet. */
export const me = signal<Me | null | undefined>(undefined);

const RANKS: Record<Role, number> = { VIEWER: 0, SUPPORT: 1, ADMIN: 2 };

/** Whether the operator has at least this role. What they may not do is not offered; the service refuses it in any case. */
export const may = (role: Role): boolean => me.value != null && RANKS[me.value.role] >= RANKS[role];
