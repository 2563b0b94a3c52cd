import { z } from 'zod';
import { describeAnswer, Mismatch, requireResult, requireThat } from './answers.js';
import { search } from './questions.js';
import { ACCOUNT_FIELDS, ONE_USER, USER_FIELDS } from './shapes.js';
import { type Check, LOGIN_METHODS, listOf, NotObservable, type Target, whileUnchanged } from './target.js';

/** "Resources and their fields": the user object and the account object. */

/** All users and accounts that the sample and a page of each login method contain, not validated. */
async function listObjects(
  target: Target,
): Promise<{ users: Record<string, unknown>[]; accounts: Record<string, unknown>[] }> {
  const listed = [...(await target.sample()).newest];
  for (const method of LOGIN_METHODS) listed.push(...(await listOf(target, `login_method=${method}`)).users);
  if (listed.length === 0) throw new NotObservable('there are no users');
  const accounts = listed.flatMap((user) => z.array(ONE_USER).safeParse(user['accounts']).data ?? []);
  return { users: listed, accounts };
}

function fieldCheck(kind: 'user' | 'account', field: string, form: z.ZodType, sentence: string): Check {
  return {
    id: `${kind}/${field.replaceAll('_', '-')}`,
    sentence,
    async run(target) {
      const { users, accounts } = await listObjects(target);
      const objects = kind === 'user' ? users : accounts;
      if (objects.length === 0) throw new NotObservable('no user has accounts');
      const bad = objects.find((object) => !form.safeParse(object[field]).success);
      const asked = { request: 'GET /server/users' };
      const arrived = `${JSON.stringify(bad?.[field])} in ${kind} ${bad?.['id']}`;
      requireThat(bad === undefined, asked, `${field} as the contract defines it`, arrived);
      // A field that is null everywhere proves nothing.
      if (objects.every((object) => object[field] === null || object[field] === undefined))
        throw new NotObservable(`no ${kind} has a ${field}`);
    },
  };
}

const STATE = /delet|remov|banned|^(state|status|is_)/i;
const SECRET = /private|secret|seed|mnemonic|password|encrypted/i;

/** The names of all fields of a value, nested ones included. */
function namesIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) =>
    Array.isArray(value) ? namesIn(inner) : [name, ...namesIn(inner)],
  );
}

export const fieldChecks: readonly Check[] = [
  fieldCheck('user', 'id', USER_FIELDS.id, 'id: integer.'),
  fieldCheck('user', 'auth_method', USER_FIELDS.auth_method, 'auth_method: string.'),
  fieldCheck('user', 'auth_value', USER_FIELDS.auth_value, 'auth_value: string.'),
  fieldCheck('user', 'wallet', USER_FIELDS.wallet, 'wallet: string, when applicable.'),
  fieldCheck('user', 'created_at', USER_FIELDS.created_at, 'created_at: string, timestamp; RFC 3339 in UTC.'),
  fieldCheck('user', 'last_login', USER_FIELDS.last_login, 'last_login: string, timestamp.'),
  fieldCheck('user', 'login_count', USER_FIELDS.login_count, 'login_count: integer.'),
  fieldCheck('user', 'accounts', USER_FIELDS.accounts, 'accounts: array of account objects.'),
  {
    id: 'user/email-value',
    sentence: 'auth_value: for an email login, the login email.',
    async run(target) {
      const { users } = await listObjects(target);
      const byEmail = users.filter(({ auth_method: method }) => method === 'email');
      if (byEmail.length === 0) throw new NotObservable('no user signs in by email');
      const bad = byEmail.find(({ auth_value: value }) => !String(value).includes('@'));
      requireThat(bad === undefined, { request: 'GET /server/users' }, 'an email', bad?.['auth_value']);
    },
  },
  {
    id: 'user/no-secrets',
    sentence: 'User responses contain public account addresses only, never private keys or other wallet secrets.',
    async run(target) {
      const { users } = await listObjects(target);
      const names = [...new Set(namesIn(users))].filter((name) => SECRET.test(name));
      const asked = { request: 'GET /server/users' };
      requireThat(names.length === 0, asked, 'no field that could hold a secret', names);
      const isSeed = /"S[A-Z2-7]{55}"/.test(JSON.stringify(users));
      requireThat(!isSeed, asked, 'no Stellar secret seed', 'a Stellar secret seed');
    },
  },
  {
    id: 'user/no-state',
    sentence: 'No state field is exposed on a user.',
    async run(target) {
      const { users } = await listObjects(target);
      const names = [...new Set(users.flatMap(Object.keys))].filter((name) => STATE.test(name));
      requireThat(names.length === 0, { request: 'GET /server/users' }, 'no state field', names);
    },
  },
  {
    id: 'user/same-everywhere',
    sentence: 'User object: returned by the list, search and get-one routes.',
    run: (target) =>
      whileUnchanged(target, async () => {
        const [user] = (await target.sample()).users.filter(({ auth_method: method }) => method === 'email');
        if (user === undefined) throw new NotObservable('no user signs in by email');
        const answers = [
          await target.ask(`/server/users/${user.id}`),
          await search(target, 'email', user.auth_value),
        ] as const;
        const one = requireResult(answers[0], ONE_USER, 'one user');
        const { users } = requireResult(answers[1], z.object({ users: z.array(ONE_USER) }), 'users');
        const match = users.find(({ id }) => id === user.id);
        for (const [place, other] of [one, match].entries()) {
          const answer = answers[place as 0 | 1];
          for (const [field, form] of Object.entries(USER_FIELDS)) {
            const isRight = other !== undefined && form.safeParse(other[field]).success;
            if (!isRight) throw new Mismatch(answer, `a user with ${field}`, describeAnswer(answer));
          }
          const isSame = other?.['id'] === user.id && other['created_at'] === user.created_at;
          requireThat(isSame, answer, `user ${user.id} as in the list`, describeAnswer(answer));
        }
      }),
  },
  fieldCheck('account', 'id', ACCOUNT_FIELDS.id, 'Account id: integer.'),
  fieldCheck('account', 'network', ACCOUNT_FIELDS.network, 'network: string, for instance stellar.'),
  fieldCheck('account', 'public_key', ACCOUNT_FIELDS.public_key, 'public_key: string, the public address.'),
  {
    id: 'account/stellar-form',
    sentence: 'public_key: Stellar form starts with G.',
    async run(target) {
      const { accounts } = await listObjects(target);
      const onStellar = accounts.filter(({ network }) => network === 'stellar');
      if (onStellar.length === 0) throw new NotObservable('there is no account on stellar');
      const bad = onStellar.find(({ public_key: key }) => !/^G[A-Z2-7]{55}$/.test(String(key)));
      requireThat(bad === undefined, { request: 'GET /server/users' }, 'G and 55 more characters', bad?.['public_key']);
    },
  },
];
