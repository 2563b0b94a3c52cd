/** The types of changes in the feed, and what each means. Pages of the dashboard have them too, so this file imports nothing. */
export const CHANGE_MEANINGS = {
  'user.created': 'A user registered, was created or was imported.',
  'user.updated': 'Fields of a user were changed. A login is not a change.',
  'user.removed': 'A user was removed.',
  'user.restored': 'A removed user came back.',
  'account.added': 'An account was linked to a user.',
  'identity.banned': 'An identity is banned from now on, by itself or with its user.',
  'identity.unbanned': 'An identity is not banned any more: the last ban that held for it was lifted, or has ended.',
  'user.merged': 'A user was merged into another one, and is gone.',
} as const;

export type ChangeType = keyof typeof CHANGE_MEANINGS;

export const CHANGE_TYPES = Object.keys(CHANGE_MEANINGS) as readonly ChangeType[];
