import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { INPUT_LIMITS } from '../domain/input-limits.js';
import { ADDRESS_FORMS, requireAddress } from '../domain/addresses.js';
import { objectError, says } from '../domain/filters.js';
import { AppError } from '../errors.js';
import type { Services } from '../services/services.js';
import { answer, EXAMPLE_ADDRESS, verification } from './shapes.js';

const userIdError = { error: says('user_id', 'a whole number, 1 and up') };

export const BODY_FORM = 'a JSON object with content-type application/json';

const verifyBody = z.strictObject(
  {
    address: z.string({ error: says('address', ADDRESS_FORMS) }).meta({
      description: 'Stellar account (G…) or Ethereum address (0x…).',
      maxLength: INPUT_LIMITS.address.max,
    }),
    // Null or a string is an error and never "any user": a caller who has lost the ID sends these.
    user_id: z
      .number(userIdError)
      .refine((value) => Number.isInteger(value) && value >= 1, userIdError)
      .optional()
      .meta({
        type: 'integer',
        minimum: 1,
        description: 'When present, the address must belong to this user.',
      }),
  },
  { error: objectError('body', BODY_FORM, 'address and user_id') },
);

/** Refuses a pin in the URL: ignored, it would turn the question into one about any user. BAD_USER_INPUT. */
export function refuseMisplacedPin(query: unknown): void {
  if (Object.hasOwn(query as object, 'user_id'))
    throw new AppError('BAD_USER_INPUT', 'user_id: got it in the URL, expected it in the body.');
}

const OWNED = {
  exists: true,
  user_id: 42,
  network: 'stellar',
  wallet_type: 'custodial',
  auth_method: 'email',
} as const;

/** Wallet verification (spec, "POST /server/wallets/verify"). `exists` is the decision; false is not an error. */
export const walletRoutes: FastifyPluginAsyncZod<{ services: Services }> = async (app, { services }) => {
  app.post(
    '/wallets/verify',
    {
      config: { permission: 'verify' },
      schema: {
        operationId: 'verifyWallet',
        summary: 'Verify that an address belongs to a current user',
        description:
          '`exists` is the decision, the status is not. Without `user_id` a yes proves only that the address belongs to some user of the project.',
        tags: ['wallets'],
        body: verifyBody.meta({ examples: [{ address: EXAMPLE_ADDRESS, user_id: 42 }] }),
        response: {
          200: answer(
            verification,
            'Yes or no.',
            { message: 'Wallet verified.', result: OWNED },
            { message: 'Wallet verified.', result: { exists: false } },
          ),
        },
      },
    },
    async ({ scope, query, body }) => {
      refuseMisplacedPin(query);
      const address = requireAddress('address', body.address);
      const userId = body.user_id === undefined ? null : BigInt(body.user_id);
      const owner = await services.wallets.findOwner(scope, { address, userId });
      if (owner === null) return { message: 'Wallet verified.', result: { exists: false as const } };
      return {
        message: 'Wallet verified.',
        result: {
          exists: true as const,
          user_id: owner.userId,
          network: owner.network,
          wallet_type: owner.walletType,
          auth_method: owner.authMethod,
        },
      };
    },
  );
};
