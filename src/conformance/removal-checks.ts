import { addressesOf, NOBODY, search, verify } from './lookup-checks.js';
import { NEGATIVE, SEARCH, USER, type User } from './shapes.js';
import {
  type Answer,
  type Check,
  headersOf,
  listAll,
  requireError,
  requireOther,
  requireResult,
  requireThat,
  requireWrite,
  shown,
  type Target,
  Unobservable,
} from './target.js';

/** "DELETE /server/users/{user_id}", and what is left of a removed user. Nobody is removed but the user whom the operator names. */

interface Removal {
  readonly user: User;
  readonly answer: Answer;
}

const removals = new WeakMap<Target, Promise<Removal>>();

/** Removes the user, once, and tells what he was. */
function remove(target: Target): Promise<Removal> {
  const removal = removals.get(target) ?? removeNamed(target);
  removals.set(target, removal);
  return removal;
}

function requireNamed({ options: { write, deleteUser } }: Target): number {
  if (write && deleteUser !== null) return deleteUser;
  throw new Unobservable('it takes a user to delete: --write --delete-user ID');
}

async function removeNamed(target: Target): Promise<Removal> {
  const deleteUser = requireNamed(target);
  const path = `/server/users/${deleteUser}`;
  const before = await target.ask(path);
  if (before.status === 404) throw new Unobservable(`there is no user ${deleteUser} to delete`);
  const user = requireResult(before, USER, 'one user');
  return { user, answer: await target.ask({ method: 'DELETE', path }) };
}

export const removalChecks: readonly Check[] = [
  {
    id: 'delete/invalid-id',
    sentence: 'Invalid ID gives 400.',
    async run(target) {
      requireWrite(target);
      for (const id of ['abc', '1.5'])
        requireError(await target.ask({ method: 'DELETE', path: `/server/users/${id}` }), 400);
    },
  },
  {
    id: 'delete/unknown',
    sentence: 'Unknown user gives 404.',
    async run(target) {
      requireWrite(target);
      const path = `/server/users/${NOBODY}`;
      if ((await target.ask(path)).status !== 404) throw new Unobservable(`there may be a user ${NOBODY}`);
      requireError(await target.ask({ method: 'DELETE', path }), 404);
    },
  },
  {
    id: 'delete/other-project',
    sentence: 'A user of another project gives 404.',
    async run(target) {
      const headers = headersOf(requireOther(target));
      const path = `/server/users/${requireNamed(target)}`;
      requireError(await target.ask({ method: 'DELETE', path, headers }), 404);
    },
  },
  {
    id: 'delete/result',
    sentence: 'Response 200: message only (no result).',
    async run(target) {
      const { answer } = await remove(target);
      const body = answer.body as { message?: unknown } | undefined;
      const isRight = answer.status === 200 && typeof body?.message === 'string' && !('result' in body);
      requireThat(isRight, answer, '200 with a message and no result', shown(answer));
    },
  },
  {
    id: 'delete/gone',
    sentence: 'Removes the user from the project: get gives 404.',
    async run(target) {
      const { user } = await remove(target);
      requireError(await target.ask(`/server/users/${user.id}`), 404);
    },
  },
  {
    id: 'delete/not-listed',
    sentence: 'Removes the user from the project: the list is without him.',
    async run(target) {
      const { user } = await remove(target);
      const at = encodeURIComponent(user.created_at);
      const filter = `start_date=${at}&end_date=${at}`;
      const { newest } = await listAll(target, filter);
      const isThere = newest.some(({ id }) => id === user.id);
      requireThat(!isThere, { request: `GET /server/users?${filter}` }, 'users without him', `user ${user.id}`);
    },
  },
  {
    id: 'delete/not-found',
    sentence: 'Removes the user from the project: no search finds him.',
    async run(target) {
      const { user } = await remove(target);
      const questions = addressesFor(user).map((address) => search(target, 'address', address));
      if (user.auth_method === 'email') questions.push(search(target, 'email', user.auth_value));
      if (questions.length === 0) throw new Unobservable('he had no email and no address');
      for (const answer of await Promise.all(questions)) {
        const { users } = requireResult(answer, SEARCH, 'total_user and users');
        requireThat(!users.some(({ id }) => id === user.id), answer, 'users without him', shown(answer));
      }
    },
  },
  {
    id: 'delete/not-verified',
    sentence: 'A removed user no longer matches wallet verification.',
    async run(target) {
      const { user } = await remove(target);
      const addresses = addressesFor(user);
      if (addresses.length === 0) throw new Unobservable('he had no address');
      for (const address of addresses)
        requireResult(await verify(target, { address, user_id: user.id }), NEGATIVE, 'exists: false, and no more');
    },
  },
  {
    id: 'delete/again',
    sentence: 'Unknown user gives 404: one who has been removed.',
    async run(target) {
      const { user } = await remove(target);
      requireError(await target.ask({ method: 'DELETE', path: `/server/users/${user.id}` }), 404);
    },
  },
];

function addressesFor(user: User): string[] {
  const { login } = addressesOf(user);
  return [...new Set([...login.map(({ address }) => address), ...user.accounts.map((account) => account.public_key)])];
}
