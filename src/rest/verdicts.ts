import type { FastifyPluginAsync } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { ADDRESS_FORMS } from '../domain/addresses.js';
import { says } from '../domain/filters.js';
import { INPUT_LIMITS } from '../domain/input-limits.js';
import { MAX_WALLETS, readWallet, type WalletVerdict } from '../domain/wallets.js';
import { AppError, expected } from '../errors.js';
import type { RunWithAdmission } from '../http/admit-requests.js';
import { type Authenticate, authenticated } from '../http/authentication.js';
import { jsonBodyParser, parseWithAdmission } from '../http/body.js';
import type { Services } from '../services/services.js';
import { compileValidator } from './plugin.js';
import { answer, EXAMPLE_ADDRESS, verdicts } from './shapes.js';
import { BODY_FORM, nameOf, objectError } from './wallets.js';

export interface VerdictsOptions {
  readonly services: Services;
  readonly authenticate: Authenticate;
  readonly runWithAdmission: RunWithAdmission;
}

/** Twice as much as the longest wallets need. */
const BODY_LIMIT_BYTES = 262_144;
/** So many look-ups in one statement are about the work of one user. */
const WALLETS_PER_UNIT = 8;

const userId = z
  .number({ error: says('user_id', 'a whole number, 1 and up') })
  .refine((value) => Number.isInteger(value) && value >= 1, { error: says('user_id', 'a whole number, 1 and up') })
  .transform(BigInt);

const wallet = z.strictObject(
  {
    address: z.string({ error: (issue) => expected(nameOf(issue), issue.input, ADDRESS_FORMS) }).meta({
      description: 'Stellar account (G…) or Ethereum address (0x…).',
      maxLength: INPUT_LIMITS.address.max,
    }),
    // Checked for each wallet: a malformed one is a verdict, and must not fail the others.
    user_id: z.unknown().optional().meta({
      type: 'integer',
      minimum: 1,
      description: 'When present, the address must belong to this user.',
    }),
  },
  { error: objectError('an object with an address', 'address and user_id') },
);
const verdictsBody = z.strictObject(
  {
    wallets: z
      .array(wallet, { error: says('wallets', 'a list of objects, each with an address') })
      .max(MAX_WALLETS)
      .meta({ description: `The wallets to verify, at most ${MAX_WALLETS}.` }),
  },
  { error: objectError(BODY_FORM, 'wallets') },
);
type VerdictsBody = z.output<typeof verdictsBody>;

/** Verification of many wallets at once, at /wallets/verify. */
export const verdictsPlugin: FastifyPluginAsync<VerdictsOptions> = async (app, options) => {
  app.addHook('onRequest', authenticated(options.authenticate));
  app.setValidatorCompiler(compileValidator);
  app.setSerializerCompiler(() => JSON.stringify);
  app.removeContentTypeParser('application/json');
  app.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer' },
    parseWithAdmission(jsonBodyParser(app), options.runWithAdmission),
  );
  await app.register(verifyRoute, options);
};

const verifyRoute: FastifyPluginAsyncZod<VerdictsOptions> = async (app, { services }) => {
  app.post(
    '/wallets/verify',
    {
      bodyLimit: BODY_LIMIT_BYTES,
      config: {
        permission: 'verify',
        weight: ({ body }) => 1 + Math.floor((body as VerdictsBody).wallets.length / WALLETS_PER_UNIT),
      },
      schema: {
        operationId: 'verifyWallets',
        summary: 'Verify many addresses at once',
        description: `What \`POST /server/wallets/verify\` decides for one address, for at most ${MAX_WALLETS}, all at the same instant. A malformed wallet is a verdict here, so that the others are answered. Needs the scope \`verify\`.`,
        tags: ['wallets'],
        body: verdictsBody.meta({
          examples: [{ wallets: [{ address: EXAMPLE_ADDRESS, user_id: 42 }, { address: EXAMPLE_ADDRESS }] }],
        }),
        response: {
          200: answer(verdicts, 'A verdict on each wallet.', {
            message: 'Wallets verified.',
            result: {
              as_of: '2026-01-31T12:00:00.000Z',
              verdicts: [
                {
                  verdict: 'VERIFIED',
                  user_id: 42,
                  network: 'stellar',
                  wallet_type: 'custodial',
                  auth_method: 'email',
                },
                { verdict: 'NOT_OWNED' },
                { verdict: 'MALFORMED', reason: 'it is empty' },
              ],
            },
          }),
        },
      },
      onRequest: async ({ scope }) => void scope.projectIdFor('verify'),
      // Before the wallets are checked one by one.
      preValidation: async ({ body }) => {
        const { wallets } = (body ?? {}) as Partial<VerdictsBody>;
        if (Array.isArray(wallets) && wallets.length > MAX_WALLETS)
          throw new AppError('BAD_USER_INPUT', `wallets: got ${wallets.length}, expected at most ${MAX_WALLETS}.`);
      },
    },
    async ({ scope, body }) => {
      const wallets = body.wallets.map(({ address, user_id }) => readWallet(userId, { address, userId: user_id }));
      const { asOf, verdicts: found } = await services.wallets.verifyWallets(scope, wallets);
      return { message: 'Wallets verified.', result: { as_of: asOf, verdicts: found.map(toJson) } };
    },
  );
};

function toJson({ verdict, owner, reason }: WalletVerdict): z.output<typeof verdicts>['verdicts'][number] {
  if (verdict === 'MALFORMED') return { verdict, reason: reason as string };
  if (owner === null) return { verdict: 'NOT_OWNED' };
  const { userId: user_id, network, walletType: wallet_type, authMethod: auth_method } = owner;
  return { verdict: 'VERIFIED', user_id, network, wallet_type, auth_method };
}
