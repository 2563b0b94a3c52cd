import { badInput, isPassing, UserdirError } from './errors.js';
import { OPERATIONS, type Operations } from './generated/schema.js';
import { type Names, requireKnown } from './options.js';

export interface ClientOptions {
  /** The address of the service, `https://users.example.com`, with or without `/graphql`. */
  readonly url: string;
  /** The App ID of the project. */
  readonly appId: string;
  /** The App Secret of the project. A browser must never see it. */
  readonly appSecret: string;
  /** The time of one attempt, until its answer is read; 15,000 by default. The service itself gives up after 10 seconds. */
  readonly timeoutMs?: number | undefined;
  /** How often a request that has failed for a moment is sent again; 6 by default, within some 15 seconds. */
  readonly retries?: number | undefined;
  /** Another `fetch` than the global one. */
  readonly fetch?: typeof fetch | undefined;
}

export interface CallOptions {
  /** Ends the call, which then rejects with the reason of the signal. */
  readonly signal?: AbortSignal | undefined;
  /** Sends it again until the service is there, however long that takes. */
  readonly isPatient?: boolean | undefined;
}

export interface WriteOptions extends CallOptions {
  /** By default, each call makes a key for its own retries. Give one if a later call may repeat this one: at random, never from the user ID. */
  readonly idempotencyKey?: string | undefined;
}

const CLIENT_OPTIONS: Names<ClientOptions> = {
  url: true,
  appId: true,
  appSecret: true,
  timeoutMs: true,
  retries: true,
  fetch: true,
};
export const CALL_OPTIONS: Names<CallOptions> = { signal: true, isPatient: true };
const WRITE_OPTIONS: Names<WriteOptions> = { ...CALL_OPTIONS, idempotencyKey: true };

/** Parsed JSON, of which nothing is known. */
type Json = Partial<Record<string, unknown>> | null | undefined;

/**
 * Executes an operation: each attempt within its time, and another one where that is safe and may help.
 * What writes is sent again only with its idempotency key. What is patient is sent until it succeeds or is refused.
 */
export type Ask = <Name extends keyof Operations>(
  name: Name,
  given: Operations[Name]['given'],
  options?: CallOptions,
) => Promise<Operations[Name]['answer']>;

/** The service answers at most 8 MiB. */
const MOST_LENGTH = 16 * 2 ** 20;
/** Only what is patient waits longer for a retry. */
const MOST_WAIT_SECONDS = 60;

export function createTransport(options: ClientOptions): Ask {
  requireKnown(options, CLIENT_OPTIONS);
  const { fetch = globalThis.fetch, timeoutMs = 15_000, retries = 6 } = options;
  const { url, credentials } = readOptions(options);

  async function attempt(body: string, requestId: string, signal: AbortSignal | undefined): Promise<unknown> {
    const controller = new AbortController();
    const release = wakeAfter(timeoutMs, signal, () => controller.abort());
    const headers = { ...credentials, 'content-type': 'application/json', 'x-request-id': requestId };
    try {
      const init = {
        method: 'POST',
        headers,
        body,
        // A redirect would take the secret to another host.
        redirect: 'manual',
        signal: controller.signal,
        // Next.js 14 keeps the answer of a `fetch` in a file for a year, unless it is told not to. Others do not know this option.
        next: { revalidate: 0 },
      } as const;
      return await dataOf(await fetch(url, init), requestId);
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof UserdirError) throw error;
      const why = controller.signal.aborted
        ? `not within ${timeoutMs} ms`
        : `the connection failed, ${reasonOf(error)}`;
      throw new UserdirError(`No answer from ${url}: ${why}.`, { code: 'NO_ANSWER', requestId, cause: error });
    } finally {
      release();
      controller.abort();
    }
  }

  return async function ask<Name extends keyof Operations>(
    name: Name,
    given: Operations[Name]['given'],
    options: CallOptions = {},
  ): Promise<Operations[Name]['answer']> {
    requireKnown(options, OPERATIONS[name].kind === 'mutation' ? WRITE_OPTIONS : CALL_OPTIONS);
    const { signal, isPatient = false } = options;
    const requestId = crypto.randomUUID();
    const body = JSON.stringify({ query: documentOf(name, given), variables: given });
    const isRepeatable = OPERATIONS[name].kind === 'query' || 'idempotencyKey' in given;
    for (let failures = 0; ; failures += 1) {
      signal?.throwIfAborted();
      try {
        return ((await attempt(body, requestId, signal)) as Record<Name, Operations[Name]['answer']>)[name];
      } catch (error) {
        if (!isRepeatable || !isPassing(error)) throw error;
        const waitSeconds = error.retryAfter ?? 0;
        if (!isPatient && (failures >= retries || waitSeconds > MOST_WAIT_SECONDS)) throw error;
        const backoffMs = Math.min(10_000, 200 * 2 ** failures);
        await pause(1_000 * waitSeconds + backoffMs * (0.5 + Math.random() / 2), signal);
      }
    }
  };
}

/** A document with the arguments that have a value: one that is written without a value is refused. */
export function documentOf<Name extends keyof Operations>(name: Name, given: Operations[Name]['given']): string {
  const { kind, path, given: types, fields } = OPERATIONS[name];
  requireKnown(given, types as Names<typeof given>);
  const names = Object.entries(given).flatMap(([argument, value]) => (value === undefined ? [] : [argument]));
  if (names.length === 0) return `${kind}{${path}${fields}}`;
  const variables = names.map((argument) => `$${argument}:${types[argument]}`).join();
  return `${kind}(${variables}){${path}(${names.map((argument) => `${argument}:$${argument}`).join()})${fields}}`;
}

/** Waits, but not longer than until `signal` aborts. */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const release = wakeAfter(ms, signal, () => resolve(release()));
  });
}

/** Calls a function after some time, and where `signal` aborts. Returns what takes this back: a signal may live long. */
function wakeAfter(ms: number, signal: AbortSignal | undefined, wake: () => void): () => void {
  const timer = setTimeout(wake, ms);
  signal?.addEventListener('abort', wake);
  return () => {
    clearTimeout(timer);
    signal?.removeEventListener('abort', wake);
  };
}

/** Why `fetch` has failed: of Node.js the code, such as ECONNREFUSED, is in its cause. */
function reasonOf(error: unknown): string {
  const { cause = error } = error as { cause?: unknown };
  const { code, message } = (cause ?? {}) as Json & object;
  return textOf(code) ?? textOf(message) ?? 'for an unknown reason';
}

/** The errors of `fetch` would repeat a wrong URL, or a header that cannot be sent. */
function readOptions({ url, appId, appSecret }: ClientOptions) {
  const { protocol, username, password, href } = new URL(URL.canParse(url) ? url : 'none:');
  const isAddress = /^https?:$/.test(protocol) && !username && !password && !/[?#]/.test(href);
  if (!isAddress) throw badInput('url', 'an http(s) address without credentials');
  const isText = (text: unknown) => typeof text === 'string' && /^[\x21-\x7e]{1,256}$/.test(text);
  if (!isText(appId)) throw badInput('appId', 'the App ID of a project');
  if (!isText(appSecret)) throw badInput('appSecret', 'the App Secret of a project');
  const credentials = { 'service-app-id': appId, 'service-app-secret': appSecret };
  return { url: `${href.replace(/(?<!\/)\/+$/, '').replace(/\/graphql$/, '')}/graphql`, credentials };
}

/** The data of an answer. Throws the failure that the service or a proxy before it reports. */
async function dataOf(response: Response, sentId: string): Promise<unknown> {
  const { status, headers } = response;
  const body = parseJson(await readText(response)) as Json;
  const [first] = (Array.isArray(body?.['errors']) ? body['errors'] : []) as Json[];
  if (status === 200 && body?.['data'] && first === undefined) return body['data'];
  const extensions = (first?.['extensions'] ?? {}) as NonNullable<Json>;
  // Each error of the service leads to its documentation. Another GraphQL server may have codes with the same names.
  const said = textOf(extensions['code']);
  const isOurs = said !== null && String(extensions['docs']).endsWith(`/docs/errors#${said}`);
  const code = (isOurs ? said : null) ?? headers.get('userdir-error-code');
  const message = textOf(first?.['message']) ?? textOf(code && body?.['error']);
  throw new UserdirError(message ?? `This is no answer of userdir: status ${status}.`, {
    code: code ?? 'BAD_ANSWER',
    status,
    requestId: headers.get('x-request-id') ?? sentId,
    retryAfter: secondsOf(String(extensions['retryAfter'] ?? headers.get('retry-after') ?? '')),
    argument: textOf(extensions['argument']),
    userId: textOf(extensions['userId']),
  });
}

async function readText({ body }: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const bytes of body ?? []) {
    text += decoder.decode(bytes, { stream: true });
    if (text.length > MOST_LENGTH) throw new UserdirError('The answer is too large.', { code: 'BAD_ANSWER' });
  }
  return text + decoder.decode();
}

/** The value of a JSON text; null for any other text. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const textOf = (value: unknown) => (typeof value === 'string' && value !== '' ? value.slice(0, 2_000) : null);

/** Of `Retry-After`, which may also be a date. */
function secondsOf(text: string): number | null {
  const seconds = /^\d{1,9}$/.test(text) ? Number(text) : Math.ceil((Date.parse(text) - Date.now()) / 1_000);
  return Number.isNaN(seconds) ? null : Math.max(0, seconds);
}
