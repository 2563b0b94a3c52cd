import { readFileSync } from 'node:fs';
import { buildSchema, type GraphQLInputObjectType } from 'graphql';
import { expect, test } from 'vitest';
import { createProgram, leafCommands } from '#dist/cli/program.js';
import { KEPT_TEXTS, ofKeptLines } from '#dist/domain/kept-texts.js';
import { useTestApp } from '../support/app.js';

/** What callers can do with users, so that an act, or a field of one, that the model does not know fails here: add it to acts.ts and model.ts. */

const schema = buildSchema(readFileSync(new URL('../../schema.graphql', import.meta.url), 'utf8'));
const namesOf = (fields: object = {}) => Object.keys(fields).toSorted();
const inputOf = (type: string) => namesOf((schema.getType(type) as GraphQLInputObjectType).getFields());
const mutations = schema.getMutationType()?.getFields() ?? {};
/* Of these texts the model has the external ID, which is unique. `test/api/user-fields.test.ts` gives each of them alone, merged and retried. */
const KEPT_FIELDS = Object.keys(KEPT_TEXTS);
const KEPT_LINES = Object.keys(ofKeptLines(() => null));

test('the model knows every mutation of users', () => {
  const ofWebhooks = /Webhook/;
  expect(namesOf(mutations).filter((name) => !ofWebhooks.test(name))).toEqual([
    'banIdentity',
    'banUser',
    'banUsers',
    'createUser',
    'deleteUser',
    'linkIdentity',
    'mergeUsers',
    'recordLogin',
    'removeUsers',
    'restoreUser',
    'unbanIdentity',
    'unbanUser',
    'unlinkAccount',
    'unlinkIdentity',
    'updateUser',
  ]);
});

test('the model knows every field of what they take', () => {
  const ofUser = [
    ...['accounts', 'authMethod', 'authValue', 'email', 'emailVerified', 'metadata', 'wallet'],
    ...KEPT_FIELDS,
  ].toSorted();
  expect(inputOf('CreateUserInput')).toEqual(ofUser);
  expect(inputOf('RecordLoginInput')).toEqual([...ofUser, 'linkByExternalId'].toSorted());
  expect(inputOf('LinkIdentityInput')).toEqual(['authMethod', 'authValue', 'email', 'emailVerified', 'primary']);
  expect(inputOf('UpdateUserInput')).toEqual([...KEPT_FIELDS, 'email', 'metadata', 'metadataPatch'].toSorted());
  const argumentsOf = (mutation: string) => mutations[mutation]?.args.map(({ name }) => name).toSorted();
  expect(argumentsOf('banUser')).toEqual(['expiresAt', 'id', 'idempotencyKey', 'reason', 'untilLifted']);
  expect(argumentsOf('banUsers')).toEqual(['expiresAt', 'idempotencyKey', 'ids', 'reason', 'untilLifted']);
  expect(argumentsOf('banIdentity')).toEqual(['expiresAt', 'idempotencyKey', 'identity', 'reason', 'untilLifted']);
});

test('the model knows every command of users', () => {
  const reads = ['bans', 'get', 'inactive', 'list', 'removed', 'search'];
  const commands = leafCommands(createProgram({})).flatMap((command) =>
    command.parent?.name() === 'user' ? command.name() : [],
  );
  expect(commands.filter((name) => !reads.includes(name)).toSorted()).toEqual([
    ...['ban', 'export', 'import', 'link', 'merge', 'purge', 'remove', 'restore', 'unban', 'unlink', 'update'],
  ]);
});

const app = useTestApp();

test('the model knows every field of a line of an import', async () => {
  const project = await app.createProject();
  const known = async (line: object) => {
    const { errors } = await project.importLines([line]);
    return /known are (.*?)\.$/
      .exec(errors[0]?.error ?? '')?.[1]
      ?.split(', ')
      .toSorted();
  };
  const name = { auth_method: 'google', auth_value: 'g-1' };
  const ofUser = ['accounts', 'auth_method', 'auth_value', 'created_at', 'email', 'email_verified', 'id', 'identities'];
  expect(await known({ ...name, unknown: 1 })).toEqual(
    [...ofUser, 'last_login', 'login_count', 'metadata', 'wallet', ...KEPT_LINES].toSorted(),
  );
  expect(await known({ ...name, identities: [{ ...name, unknown: 1 }] })).toEqual([
    ...['auth_method', 'auth_value', 'created_at', 'email', 'email_verified', 'last_login', 'primary'],
  ]);
  expect(await known({ ban: { ...name, unknown: 1 } })).toEqual([
    'auth_method',
    'auth_value',
    'created_at',
    'expires_at',
    'of_user',
    'reason',
  ]);
});
