import { z } from 'zod';
import { describeAnswer, requireError, requireResult, requireThat } from './answers.js';
import { NEGATIVE, SEARCH } from './shapes.js';
import { type Check, headersOf, NotObservable, requireOther } from './target.js';

/** "Every route operates only on users of the project identified by the credentials". */

const OWN_USERS = 'Every route operates only on users of the project identified by the credentials of the request';

export const projectChecks: readonly Check[] = [
  {
    id: 'projects/credentials',
    sentence: 'Credentials are per project; separate projects use separate credentials.',
    async run(target) {
      const { appSecret } = requireOther(target);
      const headers = headersOf({ appId: target.options.appId, appSecret });
      requireError(await target.ask({ path: '/server/users', headers }), 401);
    },
  },
  {
    id: 'projects/get',
    sentence: `${OWN_USERS}: a user of another project gives 404.`,
    async run(target) {
      const headers = headersOf(requireOther(target));
      const [user] = (await target.sample()).users;
      if (user === undefined) throw new NotObservable('there are no users');
      requireError(await target.ask({ path: `/server/users/${user.id}`, headers }), 404);
    },
  },
  {
    id: 'projects/list',
    sentence: `${OWN_USERS}: list.`,
    async run(target) {
      const headers = headersOf(requireOther(target));
      const own = new Set((await target.sample()).users.map(({ id }) => id));
      if (own.size === 0) throw new NotObservable('there are no users');
      const answer = await target.ask({ path: '/server/users?limit=100', headers });
      const { users } = requireResult(answer, z.object({ users: z.array(z.record(z.string(), z.unknown())) }), 'users');
      const shared = users.map(({ id }) => id).filter((id) => own.has(Number(id)));
      requireThat(shared.length === 0, answer, 'no user of the first project', shared);
    },
  },
  {
    id: 'projects/search',
    sentence: `${OWN_USERS}: search.`,
    async run(target) {
      const headers = headersOf(requireOther(target));
      const [user] = (await target.sample()).users.filter(({ auth_method: method }) => method === 'email');
      if (user === undefined) throw new NotObservable('no user signs in by email');
      const path = `/server/users/search?email=${encodeURIComponent(user.auth_value)}`;
      const answer = await target.ask({ path, headers });
      const { users } = requireResult(answer, SEARCH, 'total_user and users');
      requireThat(
        !users.some(({ id }) => id === user.id),
        answer,
        'no user of the first project',
        describeAnswer(answer),
      );
    },
  },
  {
    id: 'projects/verify',
    sentence: `${OWN_USERS}: verify.`,
    async run(target) {
      const headers = headersOf(requireOther(target));
      const holders = (await target.sample()).users.filter(({ accounts }) => accounts.length > 0);
      const [account] = holders.flatMap(({ accounts }) => accounts);
      const [user] = holders;
      if (account === undefined || user === undefined) throw new NotObservable('no user has accounts');
      const body = { address: account.public_key, user_id: user.id };
      const answer = await target.ask({ method: 'POST', path: '/server/wallets/verify', body, headers });
      requireResult(answer, NEGATIVE, '{"exists": false} only');
    },
  },
];
