import type { FastifyPluginAsync } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { objectError, says } from '../domain/filters.js';
import { formatVerdict, MAX_WALLETS, readWalletObject, walletObject } from '../domain/wallets.js';
import { AppError } from '../errors.js';
import type { RunWithAdmission } from '../http/admit-requests.js';
import { type Authenticate, authenticated } from '../http/authentication.js';
import { jsonBodyParser, parseWithAdmission } from '../http/body.js';
import type { Services } from '../services/services.js';
import { compileValidator } from './plugin.js';
import { answer, EXAMPLE_ADDRESS, verdicts } from './shapes.js';
import { BODY_FORM } from './wallets.js';

export interface VerdictsOptions {
  readonly services: Services;
  readonly authenticate: Authenticate;
  readonly runWithAdmission: RunWithAdmission;
}

/** Twice as much as the longest wallets need. */
const BODY_LIMIT_BYTES = 262_144;
/** So many look-ups in one statement, or so many signatures, are about the work of one user. */
const WALLETS_PER_UNIT = 8;
const RECEIPTS_PER_UNIT = 4;

const verdictsBody = z.strictObject(
  {
    wallets: z
      .array(walletObject, { error: says('wallets', 'a list of objects, each with an address') })
      .max(MAX_WALLETS)
      .meta({ description: `The wallets to verify, at most ${MAX_WALLETS}.` }),
    receipts: z
      .boolean({ error: says('receipts', 'true or false') })
      .default(false)
      .meta({ description: 'Whether each verdict has a signed receipt. Refused where the service signs none.' }),
  },
  { error: objectError('body', BODY_FORM, 'wallets and receipts') },
);
type VerdictsBody = z.output<typeof verdictsBody>;

function weightOf({ wallets, receipts }: VerdictsBody): number {
  const lookups = Math.floor(wallets.length / WALLETS_PER_UNIT);
  return 1 + lookups + (receipts ? Math.floor(wallets.length / RECEIPTS_PER_UNIT) : 0);
}

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
        weight: ({ body }) => weightOf(body as VerdictsBody),
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
      const wallets = body.wallets.map(readWalletObject);
      const { asOf, verdicts: found } = await services.wallets.verifyWallets(scope, wallets, {
        withReceipts: body.receipts,
      });
      return { message: 'Wallets verified.', result: { as_of: asOf, verdicts: found.map(formatVerdict) } };
    },
  );
};
