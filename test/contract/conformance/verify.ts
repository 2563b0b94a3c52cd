import { requireError, requireResult, requireThat } from './answers.js';
import { addressesOf, findKnownAddresses, SAMPLE_SIZE, UNUSED, UNUSED_ID, verify } from './questions.js';
import { NEGATIVE, ONE_USER, POSITIVE, type User } from './shapes.js';
import { type Check, NotObservable, whileUnchanged } from './target.js';

/** "POST /server/wallets/verify". */

const WALLET_TYPES = { linked: 'custodial', login: 'external' } as const;

function walletTypeCheck(kind: 'linked' | 'login', meaning: string): Check {
  const expected = WALLET_TYPES[kind];
  return {
    id: `verify/${expected}`,
    sentence: `wallet_type: ${expected} (${meaning}).`,
    run: (target) =>
      whileUnchanged(target, async () => {
        const types = [];
        for (const { user, address } of await findKnownAddresses(target, kind)) {
          const answer = await verify(target, { address, user_id: user.id });
          types.push(requireResult(answer, POSITIVE, 'a positive verification').wallet_type);
        }
        const asked = { request: `POST /server/wallets/verify, for ${types.length} addresses` };
        requireThat((types as string[]).includes(expected), asked, `wallet_type ${expected}`, types);
      }),
  };
}

export const verifyChecks: readonly Check[] = [
  {
    id: 'verify/positive',
    sentence: 'Positive: result.exists is true with user_id, network, wallet_type, auth_method.',
    run: (target) =>
      whileUnchanged(target, async () => {
        const { users } = await target.sample();
        const all = users.flatMap((user) => Object.values(addressesOf(user)).flat()).slice(0, SAMPLE_SIZE);
        if (all.length === 0) throw new NotObservable('no user has an address that identifies them');
        for (const { address, network } of all) {
          const answer = await verify(target, { address });
          const result = requireResult(answer, POSITIVE, 'exists, user_id, network, wallet_type and auth_method');
          requireThat(result.network === network, answer, `network ${network}`, result);
          const owner = requireResult(await target.ask(`/server/users/${result.user_id}`), ONE_USER, 'the owner');
          const method = String(owner['auth_method']);
          requireThat(result.auth_method === method, answer, `auth_method ${method}, as the owner has it`, result);
          const hasAddress = JSON.stringify(owner).toLowerCase().includes(address.toLowerCase());
          requireThat(hasAddress, answer, 'the user_id of a user that has the address', result);
        }
      }),
  },
  walletTypeCheck('linked', 'account provisioned by the service'),
  walletTypeCheck('login', "the user's own login wallet"),
  {
    id: 'verify/pinned',
    sentence: 'user_id: when present, the address must belong to this specific user: it does.',
    run: (target) =>
      whileUnchanged(target, async () => {
        const { users } = await target.sample();
        const all = users.flatMap((user) => Object.values(addressesOf(user)).flat()).slice(0, SAMPLE_SIZE);
        if (all.length === 0) throw new NotObservable('no user has an address that identifies them');
        for (const { user, address } of all) {
          const answer = await verify(target, { address, user_id: user.id });
          const { user_id: id } = requireResult(answer, POSITIVE, 'a positive verification');
          requireThat(id === user.id, answer, `user_id ${user.id}`, { user_id: id });
        }
      }),
  },
  {
    id: 'verify/pinned-to-another',
    sentence:
      'A well-formed address that does not match the pinned user_id is not an error; the status is 200 and result.exists is false.',
    run: (target) =>
      whileUnchanged(target, async () => {
        const { users } = await target.sample();
        const [known] = users.flatMap((user) => Object.values(addressesOf(user)).flat());
        if (known === undefined) throw new NotObservable('no user has an address that identifies them');
        const isOwner = (user: User) => JSON.stringify(user).toLowerCase().includes(known.address.toLowerCase());
        const other = users.find((user) => !isOwner(user));
        for (const id of [other?.id ?? UNUSED_ID, UNUSED_ID])
          requireResult(
            await verify(target, { address: known.address, user_id: id }),
            NEGATIVE,
            '{"exists": false} only',
          );
      }),
  },
  {
    id: 'verify/negative',
    sentence:
      'Negative: a well-formed address that does not match is not an error; the status is 200 and result.exists is false, the only field.',
    async run(target) {
      for (const address of [UNUSED.stellar, UNUSED.ethereum])
        requireResult(await verify(target, { address }), NEGATIVE, '{"exists": false} only');
    },
  },
  {
    id: 'verify/malformed',
    sentence: 'A malformed address returns 400.',
    async run(target) {
      for (const address of ['GABC', '0x123', 'nonsense', '']) requireError(await verify(target, { address }), 400);
    },
  },
  {
    id: 'verify/missing',
    sentence: 'A missing address returns 400.',
    run: async (target) => requireError(await verify(target, {}), 400),
  },
];
