import { z } from 'zod';

/** The forms of the resources of the contract. Additional fields are ignored. */

export const SUCCESS = z.object({ message: z.string(), result: z.record(z.string(), z.unknown()) });

const RFC_3339_UTC = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]00:00)$/;
const timestamp = z.string().regex(RFC_3339_UTC);

export const ACCOUNT_FIELDS = {
  id: z.int(),
  network: z.string().min(1),
  public_key: z.string().min(1),
};

/** Values that a user does not have may be null or absent. */
export const USER_FIELDS = {
  id: z.int(),
  auth_method: z.string().min(1),
  auth_value: z.string(),
  wallet: z.string().nullish(),
  created_at: timestamp,
  last_login: timestamp.nullish(),
  login_count: z.int().min(0),
  accounts: z.array(z.record(z.string(), z.unknown())),
};

export const USER = z.object({ ...USER_FIELDS, accounts: z.array(z.object(ACCOUNT_FIELDS)) });
export type User = z.infer<typeof USER>;

const total = z.int().min(0);
const someUsers = z.array(z.record(z.string(), z.unknown()));
export const LIST = z.object({ page: z.int(), limit: z.int(), total_user: total, users: someUsers });
export const COUNT = z.looseObject({ total_user: total });
export const SEARCH = z.object({ total_user: total, users: someUsers });
export const ONE_USER = z.record(z.string(), z.unknown());

export const NEGATIVE = z.strictObject({ exists: z.literal(false) });
export const POSITIVE = z.object({
  exists: z.literal(true),
  user_id: z.int(),
  network: z.enum(['stellar', 'ethereum']),
  wallet_type: z.enum(['custodial', 'external']),
  auth_method: z.string().min(1),
});
