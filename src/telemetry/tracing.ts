import {
  type Attributes,
  type Context,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import { parseKeyPairsIntoRecord, parseTraceParent, setGlobalErrorHandler } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import { BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from './logger.js';
import type { Step, TraceSpan } from './request-trace.js';

/** The limit of sending. The end of the process waits for the last time. */
const EXPORT_MS = 1_000;
const WARNING_EVERY_MS = 60_000;

/**
 * Sends the traces of requests to an OpenTelemetry collector; loaded only where traces are wanted, because it takes time and memory.
 * It reads its own variables, such as those for sampling. Spans have only the values of a request that stand here, which are not personal data.
 */
export interface Tracing {
  /** Starts the trace of a request, or continues the caller's. It ends with the answer. Null where it is not sampled. */
  begin(request: FastifyRequest, reply: FastifyReply): TraceSpan | null;
  /** Sends the spans that have not been sent yet. */
  close(): Promise<void>;
}

export function createTracing(endpoint: string, headers: string, version: string, log: Logger): Tracing {
  const resource = resourceFromAttributes({ 'service.name': 'userdir', 'service.version': version });
  const provider = new BasicTracerProvider({
    resource: defaultResource()
      .merge(resource)
      .merge(detectResources({ detectors: [envDetector] })),
    spanProcessors: [
      new BatchSpanProcessor(
        new OTLPTraceExporter({ url: endpoint, headers: parseKeyPairsIntoRecord(headers), timeoutMillis: EXPORT_MS }),
      ),
    ],
  });
  const tracer = provider.getTracer('userdir', version);
  const warn = createWarning(log);
  setGlobalErrorHandler(warn);

  const toTraceSpan = (span: Span): TraceSpan => ({
    ...span.spanContext(),
    begin(step, sharedBy) {
      const { name, kind = SpanKind.INTERNAL, attributes = {} } = describe(step);
      const links = sharedBy.map((context) => ({ context }));
      const child = toTraceSpan(tracer.startSpan(name, { kind, attributes, links }, trace.setSpan(ROOT_CONTEXT, span)));
      // The traces of the other requests link to the shared step.
      for (const other of sharedBy) if (other.spanId !== span.spanContext().spanId) other.link(child);
      return child;
    },
    link: (context) => void span.addLink({ context }),
    end(error) {
      if (error !== undefined) fail(span, errorType(error));
      span.end();
    },
  });

  return {
    begin(request, reply) {
      const { method, id } = request;
      const route = request.routeOptions.url ?? 'none';
      const attributes = { 'http.request.method': method, 'http.route': route, 'userdir.request_id': id };
      const parent = contextOf(request.headers['traceparent']);
      const span = tracer.startSpan(`${method} ${route}`, { kind: SpanKind.SERVER, attributes }, parent);
      if (!span.isRecording()) return null;
      reply.raw.once('close', () => {
        span.setAttributes(outcomeOf(request, reply));
        if (reply.statusCode >= 500) fail(span, String(reply.statusCode));
        span.end();
      });
      return toTraceSpan(span);
    },
    close: () => provider.shutdown().catch(warn),
  };
}

/** The context of the caller (W3C Trace Context) without `tracestate`, which is for other vendors. */
function contextOf(traceparent: string | string[] | undefined): Context {
  const context = typeof traceparent === 'string' ? parseTraceParent(traceparent) : null;
  return context === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, { ...context, isRemote: true });
}

function outcomeOf({ scope, operation }: FastifyRequest, { statusCode }: FastifyReply): Attributes {
  return {
    'http.response.status_code': statusCode,
    ...(scope && { 'userdir.app_id': scope.appId }),
    ...(operation && { 'graphql.operation.type': operation.type, 'userdir.cost': operation.cost }),
    ...(operation?.name && { 'graphql.operation.name': operation.name }),
  };
}

function describe(step: Step): { name: string; kind?: SpanKind; attributes?: Attributes } {
  if (step.kind === 'queue') return { name: 'wait in queue' };
  if (step.kind === 'resolver') return { name: step.name };
  if (step.kind === 'batch') return { name: `batch: ${step.name}`, attributes: { 'userdir.batch.keys': step.keys } };
  // The text has no values: all of them are parameters (src/sql).
  const attributes = { 'db.system.name': 'postgresql', 'db.query.text': step.sql };
  return { name: /\w+/.exec(step.sql)?.[0] ?? 'SQL', kind: SpanKind.CLIENT, attributes };
}

/** The type of an error, and never its message, which may contain personal data. */
function errorType(error: unknown): string {
  const { code, name } = error as { code?: unknown; name?: unknown };
  return String(code ?? name ?? 'unknown');
}

function fail(span: Span, type: string): void {
  span.setAttribute('error.type', type).setStatus({ code: SpanStatusCode.ERROR });
}

/** Warns once in a while: a collector that is away fails every attempt. */
function createWarning(log: Logger): (error: unknown) => void {
  let warnedAt = Number.NEGATIVE_INFINITY;
  return (err) => {
    if (performance.now() - warnedAt < WARNING_EVERY_MS) return;
    warnedAt = performance.now();
    log.warn({ err }, 'Traces could not be sent.');
  };
}
