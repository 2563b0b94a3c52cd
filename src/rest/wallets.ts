import type { FastifyPluginAsync } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import type { Services } from '../context.js';
import { VERDICTS_BODY_BYTES } from '../domain/bounds.js';
import { INPUT_LIMITS } from '../domain/input-limits.js';
import { ID_META, objectError, parse, says } from '../domain/parse.js';
import {
  ADDRESS_FORMS,
  formatVerdict,
  MAX_WALLETS,
  readWalletObject,
  requireAddress,
  userIdError,
  walletObject,
} from '../domain/wallets.js';
import { AppError, fromUnknown } from '../errors.js';
import type { RunWithAdmission } from '../http/admission.js';
import { type Authenticate, authenticated, stillAuthenticated } from '../http/authentication.js';
import { parseWithAdmission, readJsonBody } from '../http/body.js';
import { namesIgnoredParameters, plainName } from '../http/failures.js';
import { isSliceOver, nextSlice } from '../http/turns.js';
import { answer, EXAMPLE_ADDRESS, verdicts, verification } from './shapes.js';

export const BODY_FORM = 'a JSON object with content-type application/json';

const verifyBody = z.strictObject(
  {
    address: z
      .string({ error: says('address', ADDRESS_FORMS) })
      .transform((text, context) => {
        try {
          return requireAddress('address', text);
        } catch (error) {
          // An issue, so that the faults of both are named.
          context.addIssue({ code: 'custom', input: text, message: fromUnknown(error).publicMessage });
          return z.NEVER;
        }
      })
      .meta({ description: 'Stellar account (G…) or Ethereum address (0x…).', maxLength: INPUT_LIMITS.address.max }),
    // Null or a string is an error and never "any user": a caller who has lost the ID sends these.
    user_id: z
      .number(userIdError)
      .refine((value) => Number.isInteger(value) && value >= 1, userIdError)
      .optional()
      .meta({
        ...ID_META,
        description: 'When present, the address must belong to this user.',
      }),
  },
  { error: objectError('body', BODY_FORM, 'address and user_id') },
);

/** Refuses a key of the body in the URL: ignored, a `user_id` would turn the question into one about any user. BAD_USER_INPUT. */
function refuseMisplaced(query: unknown, keys: readonly string[]): void {
  const misplaced = Object.keys(query as object)
    .map(plainName)
    .find((name) => keys.includes(name));
  if (misplaced === undefined) return;
  throw new AppError('BAD_USER_INPUT', `${misplaced}: got it in the URL, expected it in the body.`);
}

const VERIFY_KEYS = Object.keys(verifyBody.shape);

const OWNED = {
  exists: true,
  user_id: 1,
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
        summary: 'Verify a wallet',
        description:
          'Whether an address belongs to a current user. `exists` is the decision, the status is not. Without `user_id` a yes proves only that the address belongs to some user of the project.',
        tags: ['wallets'],
        // Zod drops `examples` of what it transforms.
        body: verifyBody.meta({ example: { address: EXAMPLE_ADDRESS, user_id: 1 } }),
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
      refuseMisplaced(query, VERIFY_KEYS);
      const userId = body.user_id === undefined ? null : BigInt(body.user_id);
      const owner = await services.wallets.findOwner(scope, { address: body.address, userId });
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

export interface VerdictsOptions {
  readonly services: Services;
  readonly authenticate: Authenticate;
  readonly runWithAdmission: RunWithAdmission;
}

/** So many look-ups in one statement are about the work of one user. */
const WALLETS_PER_UNIT = 8;
/** So many wallets usually need. The rest of the weight is added when they have been counted. */
const BYTES_PER_UNIT = 64 * WALLETS_PER_UNIT;

const verdictsBody = z.strictObject(
  {
    wallets: z
      .array(walletObject, { error: says('wallets', 'a list of objects, each with an address') })
      .max(MAX_WALLETS)
      .meta({ description: `The wallets to verify, at most ${MAX_WALLETS}.` }),
  },
  { error: objectError('body', BODY_FORM, 'wallets') },
);
const VERDICTS_KEYS = [...Object.keys(verdictsBody.shape), ...VERIFY_KEYS];
const nameIgnored = namesIgnoredParameters({});
type VerdictsBody = z.output<typeof verdictsBody>;

function weightOf(wallets: VerdictsBody['wallets']): number {
  return 1 + Math.floor(wallets.length / WALLETS_PER_UNIT);
}

/** The weight of a request of which only the length is known. */
function weightOfBytes(body: Uint8Array | null): number {
  return 1 + Math.floor((body?.length ?? 0) / BYTES_PER_UNIT);
}

/** Reads a body. BAD_USER_INPUT. */
function readVerdictsBody(body: Uint8Array | null): VerdictsBody {
  const value = body === null ? undefined : readJsonBody(body);
  const { wallets } = (value ?? {}) as Partial<VerdictsBody>;
  // Before the wallets are checked one by one.
  if (Array.isArray(wallets) && wallets.length > MAX_WALLETS)
    throw new AppError('BAD_USER_INPUT', `wallets: got ${wallets.length}, expected at most ${MAX_WALLETS}.`);
  return parse(verdictsBody, value);
}

/** Verification of many wallets at once, at /wallets/verify. */
export const verdictsPlugin: FastifyPluginAsync<VerdictsOptions> = async (app, options) => {
  const { services, authenticate, runWithAdmission } = options;
  app.addHook('onRequest', authenticated(authenticate));
  app.addHook('preHandler', stillAuthenticated(authenticate));
  app.setSerializerCompiler(() => JSON.stringify);
  // The wallets are checked when admission has started the request.
  app.setValidatorCompiler(() => (value) => ({ value }));
  app.removeContentTypeParser('application/json');
  app.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer' },
    parseWithAdmission((_request, body, done) => done(null, body), runWithAdmission),
  );
  app.post(
    '/wallets/verify',
    {
      bodyLimit: VERDICTS_BODY_BYTES,
      config: {
        permission: 'verify',
        weight: (request) => weightOfBytes(bodyOf(request)),
      },
      schema: {
        operationId: 'verifyWallets',
        summary: 'Verify many wallets',
        description: `What \`POST /server/wallets/verify\` decides for one address, for at most ${MAX_WALLETS}, all at the same instant. A malformed wallet is a verdict here, so that the others are answered.`,
        tags: ['wallets'],
        body: verdictsBody.meta({
          examples: [{ wallets: [{ address: EXAMPLE_ADDRESS, user_id: 1 }, { address: EXAMPLE_ADDRESS }] }],
        }),
        response: {
          200: answer(verdicts, 'A verdict on each wallet.', {
            message: 'Wallets verified.',
            result: {
              as_of: '2026-01-31T12:00:00.000Z',
              verdicts: [
                {
                  verdict: 'VERIFIED',
                  user_id: 1,
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
      preValidation: async (request, reply) => nameIgnored(request, reply),
    },
    async (request) => {
      const { scope, query } = request;
      refuseMisplaced(query, VERDICTS_KEYS);
      const json = bodyOf(request);
      const { wallets } = readVerdictsBody(json);
      request.addWeight(Math.max(0, weightOf(wallets) - weightOfBytes(json)));
      if (isSliceOver()) await nextSlice(scope.appId);
      const { asOf, verdicts: results } = await services.wallets.verifyWallets(scope, wallets.map(readWalletObject));
      return { message: 'Wallets verified.', result: { as_of: asOf, verdicts: results.map(formatVerdict) } };
    },
  );
};

/** The bytes of a body; null for none. */
function bodyOf({ body }: { readonly body: unknown }): Buffer | null {
  return Buffer.isBuffer(body) ? body : null;
}
