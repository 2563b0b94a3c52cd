import { z } from 'zod';
import { METHOD_FORM_IN_CODE } from '../domain/auth-methods.js';
import { KEPT_TEXTS, ofKeptLines } from '../domain/kept-texts.js';
import { ID_META } from '../domain/parse.js';
import { Network, WalletType } from '../domain/users.js';

/* The bodies of the REST answers (spec, "Resources and their fields"). Those with an `id` are components of the OpenAPI document, each with one example. */

/** The first user of the demo project, so that the page of a demo can try the examples. */
const EXAMPLE_EMAIL = 'bela.fischer.1-1@example.com';
export const EXAMPLE_ADDRESS = 'GAJ2EHAQYH7ZST46FB62S4S74EPIJKTJ6RMRMGLVOFQM5QP24OA75K6G';

const id = (of: string) =>
  z
    .int()
    .min(1)
    .meta({ ...ID_META, description: `${of} ID.` });
const network = () => z.enum(Network).meta({ description: 'The network of the address.' });
const authMethod = () => z.string().meta({ description: `How the user signs in: ${METHOD_FORM_IN_CODE}.` });

const accountObject = z
  .object({
    id: id('Account'),
    network: network(),
    public_key: z.string().meta({ description: 'The public address, spelled as it was registered.' }),
  })
  .meta({ id: 'Account', description: 'A public address linked to a user.' });

export const userObject = z
  .object({
    id: id('User'),
    auth_method: authMethod(),
    auth_value: z.string().meta({
      description: 'The identifier of the user under that method; for an email login the login email.',
    }),
    wallet: z.string().nullable().meta({ description: 'The external address used to log in; null if there is none.' }),
    created_at: z.iso.datetime().meta({ description: 'When the user registered, in UTC.' }),
    last_login: z.iso
      .datetime()
      .nullable()
      .meta({ description: 'The most recent login, in UTC; null if none was recorded.' }),
    login_count: z.int().min(0).meta({ description: 'The number of logins recorded.' }),
    accounts: z.array(accountObject).meta({ description: 'The accounts linked to the user, oldest first.' }),
  })
  .meta({ id: 'User', description: 'A current user of the project.' });

const identityObject = z
  .object({
    auth_method: authMethod(),
    auth_value: z.string().meta({ description: 'The identifier under that method, spelled as it was registered.' }),
    email: z.string().nullable().meta({ description: 'The email that came with the identity; null if none did.' }),
    email_verified: z.boolean().nullable().meta({ description: 'What you have said of that email; null if nothing.' }),
    created_at: z.iso.datetime().meta({ description: 'Since when the identity is the user’s, in UTC.' }),
    last_login: z.iso
      .datetime()
      .nullable()
      .meta({ description: 'The last login by it, in UTC; null if there was none.' }),
    primary: z
      .boolean()
      .meta({ description: 'True for the one that `auth_method` and `auth_value` of the user repeat.' }),
  })
  .meta({ id: 'Identity', description: 'What a user logs in with.' });

export const wholeUser = userObject
  .extend({
    email: z
      .string()
      .nullable()
      .meta({ description: 'The login email, by which a search finds the user; null if none.' }),
    ...ofKeptLines((field) =>
      z
        .string()
        .nullable()
        .meta({ description: `${KEPT_TEXTS[field].meaning}; null if none.` }),
    ),
    metadata: z
      .looseObject({})
      .nullable()
      .meta({ description: 'What your application keeps with the user; null if nothing.' }),
    identities: z.array(identityObject).meta({ description: 'The primary one first, then the oldest.' }),
  })
  .meta({ id: 'WholeUser', description: 'A current user with everything that an export has, for a copy.' });

export const EXAMPLE_USER: z.output<typeof userObject> = {
  id: 1,
  auth_method: 'email',
  auth_value: EXAMPLE_EMAIL,
  wallet: null,
  created_at: '2026-01-31T12:00:00.000Z',
  last_login: '2026-02-14T08:30:00.000Z',
  login_count: 7,
  accounts: [{ id: 1, network: 'stellar', public_key: EXAMPLE_ADDRESS }],
};

export const EXAMPLE_WHOLE_USER: z.output<typeof wholeUser> = {
  ...EXAMPLE_USER,
  email: EXAMPLE_EMAIL,
  ...ofKeptLines((field) => KEPT_TEXTS[field].examples[0]),
  metadata: { plan: 'pro' },
  identities: [
    {
      auth_method: 'email',
      auth_value: EXAMPLE_EMAIL,
      email: EXAMPLE_EMAIL,
      email_verified: true,
      created_at: EXAMPLE_USER.created_at,
      last_login: EXAMPLE_USER.last_login,
      primary: true,
    },
  ],
};

const ownedAddress = z
  .object({
    exists: z.literal(true).meta({ description: 'The decision.' }),
    user_id: id('User'),
    network: network(),
    wallet_type: z.enum(WalletType).meta({
      description: '`custodial`: provisioned by the service. `external`: the login wallet of the user.',
    }),
    auth_method: authMethod(),
  })
  .meta({
    id: 'OwnedAddress',
    description: 'The address belongs to a current user, and to the given user where one was given.',
  });
const foreignAddress = z
  .object({ exists: z.literal(false).meta({ description: 'The decision.' }) })
  .meta({ id: 'ForeignAddress', description: 'The address does not belong to such a user.' });

export const verification = z.union([ownedAddress, foreignAddress]);

const verifiedWallet = ownedAddress
  .omit({ exists: true })
  .extend({ verdict: z.literal('VERIFIED').meta({ description: 'The decision.' }) })
  .meta({
    id: 'VerifiedWallet',
    description: 'The address belongs to a current user and, where one was given, to that one.',
  });
const unownedWallet = z
  .object({ verdict: z.literal('NOT_OWNED').meta({ description: 'The decision.' }) })
  .meta({ id: 'UnownedWallet', description: 'The address does not belong to such a user.' });
const malformedWallet = z
  .object({
    verdict: z.literal('MALFORMED').meta({ description: 'No decision.' }),
    reason: z.string().meta({ description: 'Why the wallet is malformed.' }),
  })
  .meta({ id: 'MalformedWallet', description: 'It is no address, or no user ID. Nothing was looked up.' });

export const verdicts = z.object({
  as_of: z.iso.datetime().meta({
    description: 'The instant of the verdicts, by the clock of the database: all that was committed before it counts.',
  }),
  verdicts: z
    .array(z.union([verifiedWallet, unownedWallet, malformedWallet]))
    .meta({ description: 'One for each of the wallets, in their order.' }),
});

const message = z.string().meta({ description: 'One sentence, the same for all answers of a route.' });

/** The schema of a successful answer. */
export function answer<Result extends z.ZodType>(
  result: Result,
  description: string,
  ...examples: { message: string; result: z.output<Result> }[]
) {
  return z.object({ message, result }).meta({ description, examples });
}

export function answerWithoutResult(description: string, example: string) {
  return z.object({ message }).meta({ description, examples: [{ message: example }] });
}
