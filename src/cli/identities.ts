import type { Command } from 'commander';
import { api, graphql, inProject, type ResultOf, type VariablesOf } from '../dashboard/documents.js';
import { identityOptions, option, projectOption, userIdArgument } from './arguments.js';
import type { CommandContext, Tools } from './rows.js';
import { canAsk, confirm, fields } from './terminal.js';

/* What a user logs in with, and users who turn out to be one person. */

export const IDENTITY = graphql(`fragment IdentityDetails on Identity {
  auth_method: authMethod auth_value: authValue email email_verified: emailVerified
  created_at: createdAt last_login: lastLogin primary: isPrimary
}`);

/** An identity in words. */
export function identityText({ auth_method, auth_value, email, email_verified, primary }: ResultOf<typeof IDENTITY>) {
  const verified = { true: 'verified', false: 'not verified' }[String(email_verified)];
  const notes = [primary && 'primary', email !== auth_value && email, email && verified].filter(Boolean);
  return `${auth_method} ${auth_value}${notes.length > 0 ? ` (${notes.join(', ')})` : ''}`;
}

/** The same of a current user. */
export const CURRENT_IDENTITY = api(`fragment CurrentIdentity on Identity {
  auth_method: authMethod auth_value: authValue email email_verified: emailVerified
  created_at: createdAt last_login: lastLogin primary: isPrimary
}`);

const LINKED = api(`fragment LinkedUser on UserPayload { user { id identities { ...CurrentIdentity } } }`, [
  CURRENT_IDENTITY,
]);

type LinkedUser = ResultOf<typeof LINKED>['user'];

const linkedText = ({ id, identities }: LinkedUser) =>
  `User ${id} logs in by ${identities.map(identityText).join(' and by ')}.`;

/** Adds the commands that link identities to users, unlink them, and merge users. */
export function addIdentityCommands(user: Command, { row, act }: CommandContext): void {
  row(user, {
    name: 'user link',
    description: 'link an identity, which the person has proved to be theirs, so that it logs in as the user',
    examples: [
      'user link --project app_1 42 --method google --value 1234 --email ada@gmail.com --email-verified',
      'user link --project app_1 42 --method google --value 1234 --primary',
    ],
    takes: [
      userIdArgument(),
      projectOption(),
      ...identityOptions().map((each) => each.makeOptionMandatory()),
      option('--email <EMAIL>', 'the email that the provider reported'),
      option('--email-verified', 'the email was verified'),
      option('--primary', 'make it the primary identity, also one that the user has'),
    ],
    document: inProject(
      api(
        `mutation LinkIdentity(
          $userId: ID!, $method: String!, $value: String!, $email: String, $emailVerified: Boolean, $primary: Boolean
        ) {
          linkIdentity(userId: $userId, input: {
            authMethod: $method, authValue: $value, email: $email, emailVerified: $emailVerified, primary: $primary
          }) { ...LinkedUser }
        }`,
        [LINKED],
      ),
    ),
    pick: ({ user }) => user,
    print: linkedText,
  });
  row(user, {
    name: 'user unlink',
    description: 'take an identity or an account from a user; the last identity stays',
    examples: [
      'user unlink --project app_1 42 --method google --value 1234',
      'user unlink --project app_1 42 --address 0x52908400098527886E0F7030069857D2E4169EE7',
    ],
    takes: [
      userIdArgument(),
      projectOption(),
      ...identityOptions(),
      option('--address <ADDRESS>', 'an account instead, with the identity that logs in by it'),
    ],
    variables(userId, { project, method, value, address }, command) {
      const isAccount = address !== undefined;
      if ((method === undefined) !== (value === undefined) || isAccount === (method !== undefined))
        command.error('error: give either --method and --value, or --address');
      return { project, userId, method: method ?? '', value: value ?? '', address: address ?? '', isAccount };
    },
    document: inProject(
      api(
        `mutation Unlink($userId: ID!, $method: String!, $value: String!, $address: String!, $isAccount: Boolean!) {
          unlinkAccount(userId: $userId, address: $address) @include(if: $isAccount) { ...LinkedUser }
          unlinkIdentity(userId: $userId, identity: { authMethod: $method, authValue: $value }) @skip(if: $isAccount) {
            ...LinkedUser
          }
        }`,
        [LINKED],
      ),
    ),
    pick: (answer) => (answer as ResultOf<typeof LINKED>).user,
    print: linkedText,
  });
  act(user, {
    name: 'user merge',
    description: 'make two users one, who are one person: what FROM has goes to INTO; it cannot be undone',
    examples: ['user merge --project app_1 43 42 --dry-run', 'user merge --project app_1 43 42 --yes'],
    takes: [
      userIdArgument('the user who goes', '<FROM>'),
      userIdArgument('the user who stays', '<INTO>'),
      projectOption(),
      option('--dry-run', 'say what would move, and change nothing'),
      option('--yes', 'do not ask; needed without a terminal'),
    ],
    act: mergeUsers,
    print: ({ from, into, merged, effects }) =>
      merged ? `User ${from} is merged into user ${into}.` : `${effectsText(effects)}\n\nNothing was changed.`,
  });
}

const PREVIEW = graphql(`query MergePreview($project: ID!, $from: ID!, $into: ID!) {
  project(appId: $project) { mergePreview(from: $from, into: $into) { name text } }
}`);
const MERGE = inProject(
  api(`mutation MergeUsers($from: ID!, $into: ID!) {
    mergeUsers(from: $from, into: $into) { user { id } }
  }`),
);

type MergeParams = VariablesOf<typeof MERGE> & { readonly dryRun?: boolean; readonly yes?: boolean };

const effectsText = (effects: readonly { readonly name: string; readonly text: string }[]) =>
  fields(effects.map(({ name, text }) => [name, text]));

async function mergeUsers({ ask, notice }: Tools, { dryRun = false, yes = false, ...merge }: MergeParams) {
  const effects = await ask(PREVIEW, merge);
  if (!dryRun) {
    if (!yes && !canAsk()) throw new Error('A merge cannot be undone. Give --yes to do it without being asked.');
    if (!yes) {
      notice(`A merge cannot be undone.\n${effectsText(effects)}`);
      await confirm(`Merge user ${merge.from} into user ${merge.into}?`);
    }
    await ask(MERGE, merge);
  }
  return { from: Number(merge.from), into: Number(merge.into), merged: !dryRun, effects };
}
