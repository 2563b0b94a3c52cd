import type {
  FastifyInstance,
  onRequestHookHandler,
  onResponseHookHandler,
  onRouteHookHandler,
  onSendHookHandler,
  preHandlerHookHandler,
  preParsingHookHandler,
} from 'fastify';

/* Every hook of a request, in its order. Interfaces add theirs behind: `onRequest` to authenticate, `preHandler` for that after a long wait. */
const PIPELINE = {
  onRoute: ['compression'],
  onRequest: ['closing', 'commonHeaders', 'unusualRequests', 'requestTime', 'traces'],
  preParsing: ['rateLimit'],
  preHandler: ['admission', 'traces'],
  onSend: ['closing', 'requestTime', 'admission'],
  onResponse: ['log', 'metrics'],
} as const satisfies Record<keyof Hooks, readonly string[]>;

type Concern = (typeof PIPELINE)[keyof Hooks][number];

/** The hooks of one concern. */
export interface Hooks {
  readonly onRoute?: onRouteHookHandler;
  readonly onRequest?: onRequestHookHandler;
  readonly preParsing?: preParsingHookHandler;
  readonly preHandler?: preHandlerHookHandler;
  readonly onSend?: onSendHookHandler;
  readonly onResponse?: onResponseHookHandler;
}

/** Adds the hooks to a server that has no routes yet. */
export function addHooks(app: FastifyInstance, concerns: Readonly<Record<Concern, Hooks>>): void {
  for (const [stage, names] of Object.entries(PIPELINE) as [keyof Hooks, readonly Concern[]][])
    for (const name of names) {
      const hook = concerns[name][stage];
      if (hook !== undefined) app.addHook(stage as 'onRequest', hook as onRequestHookHandler);
    }
}
