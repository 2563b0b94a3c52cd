import { z } from 'zod';
import { Network, WalletType } from '../services/accounts.js';

/** The bodies of the REST answers (spec, "Resources and their fields"), for types and for the OpenAPI document. */

const id = (of: string) =>
  z
    .int()
    .min(1)
    .meta({ description: `${of} ID.`, examples: [42] });

const accountObject = z.object({
  id: id('Account'),
  network: z.enum(Network),
  public_key: z.string().meta({ description: 'Public address.' }),
});

export const userObject = z.object({
  id: id('User'),
  auth_method: z.string().meta({ description: 'email, passkey, wallet, or the name of a social provider.' }),
  auth_value: z.string().meta({ description: 'Who the user is to that method; for an email login the login email.' }),
  wallet: z.string().nullable().meta({ description: 'The external address used to log in, if any.' }),
  created_at: z.iso.datetime(),
  last_login: z.iso.datetime().nullable(),
  login_count: z.int().min(0),
  accounts: z.array(accountObject),
});

export const verification = z.union([
  z.object({
    exists: z.literal(true),
    user_id: id('User'),
    network: z.enum(Network),
    wallet_type: z.enum(WalletType),
    auth_method: z.string(),
  }),
  z.object({ exists: z.literal(false) }),
]);

export const message = z.object({ message: z.string() });

export function answer<Result extends z.ZodType>(result: Result) {
  return z.object({ message: z.string(), result });
}

const FAILURES = {
  400: 'A malformed path, query or body; the error names the parameter, what arrived and what is accepted.',
  401: 'App ID or App Secret missing or invalid, or a secret without the scope that this takes.',
  404: 'The user does not exist in this project.',
} as const;

export function failures(...statuses: (keyof typeof FAILURES)[]) {
  const body = z.object({ error: z.string() });
  return Object.fromEntries(statuses.map((status) => [status, body.meta({ description: FAILURES[status] })]));
}
