import { METHOD_FORM_IN_CODE } from '../domain/auth-methods.js';
import { instantOrNull, orNull } from './shared.js';

/* Options of the fields that both schemas show, by type: what a field means is said once. */

export const USER_FIELDS = {
  id: { description: 'The user ID: the integer of the REST interface, as a string of digits.' },
  authMethod: {
    description: `How the user authenticates: ${METHOD_FORM_IN_CODE}.`,
  },
  loginMethod: { description: 'The kind of login to which `authMethod` belongs, by which `UserFilter` selects.' },
  authValue: {
    description:
      'The identifier of the user under `authMethod`, spelled as it was registered; for an email login the email address.',
  },
  email: orNull(
    'The email that `recordLogin`, `updateUser` or an import said last of the person; where nothing was said, that of the primary identity, else of the oldest linked one that has one. `searchUsers` finds the user by each of their emails. In the form in which emails are compared: trimmed, in lower case and Unicode NFC. Null when there is none, or where `updateUser` or an import said so. Two users may have the same, and it is not verified here: it proves nothing about who logs in.',
  ),
  wallet: orNull(
    'The external wallet: that of the primary identity if it logs in by one, else the one that was given or used last. Null when there is none.',
  ),
  createdAt: { type: 'DateTime', description: 'When the user registered.' },
  lastLogin: instantOrNull('The most recent login; null when none was recorded.'),
  loginCount: { description: 'The number of logins recorded.' },
} as const;

export const ACCOUNT_FIELDS = {
  id: { description: 'The account ID: the integer of the REST interface, as a string of digits.' },
  network: { description: 'The network of the account.' },
  publicKey: { description: 'The public address, spelled as it was registered.' },
  walletType: { description: 'Who holds the private key of the account.' },
} as const;

export const IDENTITY_FIELDS = {
  authMethod: { description: `${METHOD_FORM_IN_CODE}.` },
  authValue: { description: 'The identifier of the user under `authMethod`, spelled as it was registered.' },
  loginMethod: { description: 'The kind of login to which `authMethod` belongs.' },
  email: orNull('The email that came with the identity; null where none did. `User.email` may be another one.'),
  emailVerified: orNull(
    'Whether you have said that this email was verified to be the person’s; null where you have not. It is shown, and never used to link.',
  ),
  createdAt: { type: 'DateTime', description: 'Since when the identity is the user’s.' },
  lastLogin: instantOrNull('The most recent login by this identity; null when none was recorded.'),
  isPrimary: {
    description:
      'True for the identity that stands in `User.authMethod` and `User.authValue`, and over REST. A user has exactly one.',
  },
} as const;

export const WEBHOOK_FIELDS = {
  id: { description: 'The ID of the webhook.' },
  url: { description: 'Where changes are sent.' },
  description: { description: 'A note for people.' },
  types: { description: 'Only changes of these types; empty for all.' },
  status: { description: 'Whether changes are sent to it.' },
  reason: orNull('Why they are not.'),
  createdAt: { type: 'DateTime', description: 'When it was added.' },
  cursor: { description: 'Its place in the feed: all up to it has been delivered.' },
  pendingSince: instantOrNull('Since when the oldest change waits that is not delivered; null where all are.'),
  failures: { description: 'Failed attempts since the last one that was accepted.' },
  nextAttemptAt: instantOrNull('When the next attempt is due; null unless it waits for a retry.'),
  lastDeliveredAt: instantOrNull('When a change was last accepted; null if none was.'),
} as const;

export const ATTEMPT_FIELDS = {
  at: { type: 'DateTime', description: 'When it began.' },
  messageId: { description: 'The `webhook-id`, which is the `id` of the change.' },
  type: { description: 'The type, as the message has it: `user.created`.' },
  ok: { description: 'Whether the endpoint accepted it.' },
  status: orNull('The status of the answer; null if there was none.'),
  error: orNull('Why it failed.'),
} as const;

export const BAN_FIELDS = {
  authMethod: { description: 'The method of the identity.' },
  authValue: { description: 'The value of the identity, spelled as it was banned.' },
  createdAt: { type: 'DateTime', description: 'When the ban began.' },
  reason: orNull('Why, in the words of an operator; null where no reason was given.'),
  expiresAt: instantOrNull('When the ban ends by itself; null where it stays until it is lifted.'),
  isOfUser: {
    description:
      'True for the ban of a user (`banUser`), which covers each of their identities; false for the ban of this identity alone.',
  },
} as const;
