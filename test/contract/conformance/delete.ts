import { type Answer, describeAnswer, requireError, requireResult, requireThat } from './answers.js';
import { addressesOf, search, UNUSED_ID, verify } from './questions.js';
import { NEGATIVE, SEARCH, USER, type User } from './shapes.js';
import { type Check, headersOf, listAll, NotObservable, requireOther, requireWrite, type Target } from './target.js';

/** "DELETE /server/users/{user_id}", and what the other routes say about a removed user. Only the user of --delete-user is removed. */

interface Removal {
  readonly user: User;
  readonly answer: Answer;
}

const removals = new WeakMap<Target, Promise<Removal>>();

/** Removes the user at the first call; returns the user as it was before. */
function remove(target: Target): Promise<Removal> {
  const removal = removals.get(target) ?? removeNamed(target);
  removals.set(target, removal);
  return removal;
}

function requireNamed({ options: { write, deleteUser } }: Target): number {
  if (write && deleteUser !== null) return deleteUser;
  throw new NotObservable('it needs a user to delete: --write --delete-user ID');
}

async function removeNamed(target: Target): Promise<Removal> {
  const deleteUser = requireNamed(target);
  const path = `/server/users/${deleteUser}`;
  const before = await target.ask(path);
  if (before.status === 404) throw new NotObservable(`there is no user ${deleteUser} to delete`);
  const user = requireResult(before, USER, 'one user');
  return { user, answer: await target.ask({ method: 'DELETE', path }) };
}

export const deleteChecks: readonly Check[] = [
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
      const path = `/server/users/${UNUSED_ID}`;
      if ((await target.ask(path)).status !== 404) throw new NotObservable(`a user ${UNUSED_ID} may exist`);
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
      requireThat(isRight, answer, '200 with a message and no result', describeAnswer(answer));
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
    sentence: 'Removes the user from the project: the list does not contain the user.',
    async run(target) {
      const { user } = await remove(target);
      const at = encodeURIComponent(user.created_at);
      const filter = `start_date=${at}&end_date=${at}`;
      const { newest } = await listAll(target, filter);
      const isListed = newest.some(({ id }) => id === user.id);
      const asked = { request: `GET /server/users?${filter}` };
      requireThat(!isListed, asked, 'a list without the removed user', `user ${user.id}`);
    },
  },
  {
    id: 'delete/not-found',
    sentence: 'Removes the user from the project: no search finds the user.',
    async run(target) {
      const { user } = await remove(target);
      const questions = addressesFor(user).map((address) => search(target, 'address', address));
      if (user.auth_method === 'email') questions.push(search(target, 'email', user.auth_value));
      if (questions.length === 0) throw new NotObservable('the user had no email and no address');
      for (const answer of await Promise.all(questions)) {
        const { users } = requireResult(answer, SEARCH, 'total_user and users');
        requireThat(
          !users.some(({ id }) => id === user.id),
          answer,
          'users without the removed user',
          describeAnswer(answer),
        );
      }
    },
  },
  {
    id: 'delete/not-verified',
    sentence: 'A removed user no longer matches wallet verification.',
    async run(target) {
      const { user } = await remove(target);
      const addresses = addressesFor(user);
      if (addresses.length === 0) throw new NotObservable('the user had no address');
      for (const address of addresses)
        requireResult(await verify(target, { address, user_id: user.id }), NEGATIVE, '{"exists": false} only');
    },
  },
  {
    id: 'delete/again',
    sentence: 'Unknown user gives 404: a user that has been removed.',
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
