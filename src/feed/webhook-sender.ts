import { lookup, Resolver } from 'node:dns/promises';
import { Webhook as Signer } from 'standardwebhooks';
import { Agent, request } from 'undici';
import {
  isPublicAddress,
  type Message,
  parseRetryAfter,
  requireWebhookUrl,
  type TestResult,
} from '../domain/webhooks.js';

/** Sends messages to endpoints, signed as Standard Webhooks asks. */
export interface WebhookSender {
  /** Sends one message. Never rejects. `signal` ends it early. */
  send(target: Target, message: Message, signal?: AbortSignal): Promise<Exchange>;
  /** Closes the connections, and ends what is under way. */
  close(): Promise<void>;
}

/** The limit of a whole exchange: to resolve the name, to connect, to send, and to read the answer. */
export const EXCHANGE_MS = 15_000;
/** So much of an answer is read: only its status matters. */
const MAX_ANSWER_BYTES = 4_096;
const RESOLVE_MS = 3_000;
/** Of several addresses, each is tried for so long. */
const ADDRESS_MS = 2_500;
const KEEP_ALIVE_MS = 1_000;
const GONE = 410;

interface SenderOptions {
  readonly allowPrivate: boolean;
  readonly exchangeMs?: number;
  readonly resolve?: Resolve;
}

/** Finds the addresses of a name. */
type Resolve = (hostname: string) => Promise<string[]>;

export interface Target {
  readonly url: string;
  /** In base64. Each of them signs. */
  readonly secrets: readonly string[];
}

export interface Exchange extends TestResult {
  /** True if the endpoint wants nothing any more. */
  readonly isGone: boolean;
  readonly retryAfterMs: number | null;
  readonly outcome: Outcome;
}

export type Outcome = 'delivered' | 'refused' | 'timeout' | 'unreachable' | 'aborted';

/**
 * An endpoint is not trusted: its time and the part of its answer that is read are limited, and redirects are not followed. The name is resolved once for each connection, which goes to a checked address:
 * a name that means another address a moment later gains nothing.
 */
export function createWebhookSender({ allowPrivate, exchangeMs = EXCHANGE_MS, resolve }: SenderOptions): WebhookSender {
  const findAddresses = resolve ?? (allowPrivate ? resolveAsSystem : createResolver());
  const agent = new Agent({
    connect: {
      lookup(hostname, { all }, callback) {
        findAddresses(hostname)
          .then((texts) => {
            if (!allowPrivate && !texts.every(isPublicAddress))
              throw new Refusal('its name leads to a private address');
            return texts.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
          })
          .then((addresses) => {
            const [first] = addresses;
            if (first === undefined) throw Object.assign(new Error('no address'), { code: 'ENOTFOUND' });
            if (all) callback(null, addresses);
            else callback(null, first.address, first.family);
          })
          .catch((error) => callback(error, ''));
      },
      timeout: exchangeMs,
      autoSelectFamily: true,
      autoSelectFamilyAttemptTimeout: ADDRESS_MS,
    },
    // The limit of the whole exchange comes first.
    headersTimeout: exchangeMs,
    bodyTimeout: exchangeMs,
    // Shorter than servers keep them open: one that closes it while a message is on its way makes a failure of it.
    keepAliveTimeout: KEEP_ALIVE_MS,
    keepAliveMaxTimeout: KEEP_ALIVE_MS,
  });

  return {
    async send({ url, secrets }, message, signal) {
      const startedAt = performance.now();
      const stop = new AbortController();
      const abort = () => stop.abort(new Aborted());
      const timer = setTimeout(() => stop.abort(new TimedOut()), exchangeMs);
      signal?.addEventListener('abort', abort, { once: true });
      if (signal?.aborted) abort();
      const ended = (ending: Partial<Exchange> & Pick<Exchange, 'outcome' | 'error'>): Exchange => ({
        ok: ending.outcome === 'delivered',
        status: null,
        isGone: false,
        retryAfterMs: null,
        ms: Math.round(performance.now() - startedAt),
        ...ending,
      });
      try {
        requireTarget(url, allowPrivate);
        const { statusCode, headers, body } = await request(url, {
          method: 'POST',
          dispatcher: agent,
          signal: stop.signal,
          headers: headersOf(message, secrets),
          body: message.body,
        });
        await readBeginning(body);
        // A status below 200 never gets here.
        if (statusCode < 300) return ended({ outcome: 'delivered', status: statusCode, error: null });
        const retryAfter = headers['retry-after'];
        return ended({
          outcome: 'refused',
          status: statusCode,
          error: `answered ${statusCode}${statusCode < 400 ? ', and redirects are not followed' : ''}`,
          isGone: statusCode === GONE,
          retryAfterMs: parseRetryAfter(Array.isArray(retryAfter) ? retryAfter[0] : retryAfter, new Date()),
        });
      } catch (error) {
        const reason = stop.signal.aborted ? stop.signal.reason : error;
        if (reason instanceof TimedOut)
          return ended({ outcome: 'timeout', error: `no complete answer within ${exchangeMs / 1_000} s` });
        if (reason instanceof Aborted) return ended({ outcome: 'aborted', error: 'ended before there was an answer' });
        return ended({ outcome: 'unreachable', error: explain(reason) });
      } finally {
        clearTimeout(timer);
        signal?.removeEventListener('abort', abort);
      }
    },

    close: () => agent.destroy(),
  };
}

class TimedOut extends Error {}
class Aborted extends Error {}
/** Its message may be shown. */
class Refusal extends Error {}

function requireTarget(url: string, allowPrivate: boolean): void {
  try {
    requireWebhookUrl(url, allowPrivate);
  } catch {
    throw new Refusal('its URL is not that of a public host over https, and WEBHOOKS_ALLOW_PRIVATE is off');
  }
}

function headersOf({ id, body }: Message, secrets: readonly string[]): Record<string, string> {
  const now = new Date();
  return {
    'content-type': 'application/json',
    'user-agent': 'userdir',
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(now.getTime() / 1_000)),
    'webhook-signature': secrets.map((secret) => new Signer(secret).sign(id, now, body)).join(' '),
  };
}

/** Reads an answer to its end, or up to a limit. Throws if it ends before it is complete. */
async function readBeginning(body: AsyncIterable<Buffer> & { destroy(): unknown }): Promise<void> {
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    // Leaving the loop destroys the body, and its connection.
    if (bytes > MAX_ANSWER_BYTES) return;
  }
}

/** The resolver of DNS of this process. Unlike that of the system, it waits in no queue that other work shares, so a slow name server holds up only its own names. */
function createResolver(): Resolve {
  const resolver = new Resolver({ timeout: RESOLVE_MS, tries: 2 });
  return async (hostname) => {
    const answers = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)]);
    const addresses = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
    if (addresses.length > 0) return addresses;
    throw answers.find((answer) => answer.status === 'rejected')?.reason ?? new Refusal('its name has no address');
  };
}

async function resolveAsSystem(hostname: string): Promise<string[]> {
  return (await lookup(hostname, { all: true, verbatim: true })).map(({ address }) => address);
}

/** True if a name leads to a private address, as this machine resolves it now. False if it cannot be resolved in time. */
export async function leadsToPrivateAddress(hostname: string, resolve: Resolve = resolveAsSystem): Promise<boolean> {
  const timeout = new Promise<string[]>((done) => {
    setTimeout(() => done([]), RESOLVE_MS).unref();
  });
  const addresses = await Promise.race([resolve(hostname).catch(() => []), timeout]);
  return !addresses.every(isPublicAddress);
}

/** By our words for it, the codes and names of an error. */
const FAILURES: Readonly<Record<string, readonly unknown[]>> = {
  'its name cannot be resolved': ['ENOTFOUND', 'ENODATA', 'EAI_AGAIN', 'ETIMEOUT', 'ESERVFAIL'],
  'the connection was refused': ['ECONNREFUSED'],
  'it cannot be connected to': ['UND_ERR_CONNECT_TIMEOUT'],
  'the connection was closed before the answer was complete': ['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'],
  'its answer is not HTTP as it should be': ['UND_ERR_HEADERS_OVERFLOW', 'HTTPParserError'],
  'its answer is not as long as it says': ['UND_ERR_RES_CONTENT_LENGTH_MISMATCH'],
};

/** An error of the connection in our words. It never repeats what the endpoint sent. */
function explain(error: unknown): string {
  if (error instanceof Refusal) return error.message;
  const { name, code = '', errors } = error as { name?: unknown; code?: unknown; errors?: unknown[] };
  const failure = Object.entries(FAILURES).find(([, marks]) => marks.includes(code) || marks.includes(name));
  if (failure !== undefined) return failure[0];
  // One error for each address that was tried.
  if (Array.isArray(errors) && errors.length > 0) return explain(errors[0]);
  if (/CERT|SSL|TLS|ALTNAME/.test(String(code))) return `TLS failed (${/^\w{1,60}$/.exec(String(code)) ?? 'error'})`;
  return `the connection failed${/^\w{1,60}$/.test(String(code)) ? ` (${code})` : ''}`;
}
