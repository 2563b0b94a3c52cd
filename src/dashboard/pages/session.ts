import { signal } from '@preact/signals';

export type Role = 'ADMIN' | 'SUPPORT' | 'VIEWER';

export interface Me {
  readonly name: string;
  readonly role: Role;
  readonly sessionId: string;
  readonly expiresAt: string;
  readonly idleMinutes: number;
  readonly version: string;
  readonly can: readonly string[];
}

/** The operator who is signed in; null: not signed in; undefined: not known yet. */
export const me = signal<Me | null | undefined>(undefined);

/** Whether the session ended while the page was in use, and not by Log out. */
export const hasEnded = signal(false);

/** What a role may allow (domain/operators.ts). Everyone who is signed in may read. */
export type Permission = 'remove' | 'restore' | 'ban' | 'operate';

/** Whether the operator may do this. What they may not do is not offered; the service refuses it in any case. */
export const may = (permission: Permission): boolean => me.value?.can.includes(permission) ?? false;
