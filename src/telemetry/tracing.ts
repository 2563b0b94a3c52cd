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
import type { ObservedSpan, Part } from './request-trace.js';
import { VERSION } from '../config/version.js';

/** The traces of requests, sent to an OpenTelemetry collector. */
export interface Tracing {
  /** Begins the trace of a request, or goes on with that of its caller; it ends with the answer. Null where it is not sampled. */
  begin(request: FastifyRequest, reply: FastifyReply): ObservedSpan | null;
  /** Sends what has not been sent yet. */
  close(): Promise<void>;
}

/** How long sending may take, the last time too, for which the end of the process waits. */
const EXPORT_MS = 1_000;
const WARNING_EVERY_MS = 60_000;

/**
 * To be loaded where traces are wanted and nowhere else, because OpenTelemetry takes time and memory. Sampling and all else
 * it has variables for it reads by itself. No value of a request gets into a span but those named here, which are no personal data.
 */
export function createTracing(endpoint: string, headers: string, log: Logger): Tracing {
  const resource = resourceFromAttributes({ 'service.name': 'userdir', 'service.version': VERSION });
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
  const tracer = provider.getTracer('userdir', VERSION);
  const warn = createWarning(log);
  setGlobalErrorHandler(warn);

  const observe = (span: Span): ObservedSpan => ({
    ...span.spanContext(),
    begin(part, serves) {
      const { name, kind = SpanKind.INTERNAL, attributes = {} } = describe(part);
      const links = serves.map((context) => ({ context }));
      const within = observe(tracer.startSpan(name, { kind, attributes, links }, trace.setSpan(ROOT_CONTEXT, span)));
      // From the trace of a request that another one took along there is a way too.
      for (const other of serves) if (other.spanId !== span.spanContext().spanId) other.link(within);
      return within;
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
      return observe(span);
    },
    close: () => provider.shutdown().catch(warn),
  };
}

/** The context that a caller sends (W3C Trace Context), but for `tracestate`, which is for nobody here. */
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

function describe(part: Part): { name: string; kind?: SpanKind; attributes?: Attributes } {
  if (part.kind === 'turn') return { name: 'wait for turn' };
  if (part.kind === 'resolver') return { name: part.name };
  if (part.kind === 'batch') return { name: `batch: ${part.name}`, attributes: { 'userdir.batch.keys': part.keys } };
  // Statements have parameters for all values (src/sql).
  const attributes = { 'db.system.name': 'postgresql', 'db.query.text': part.sql };
  return { name: /\w+/.exec(part.sql)?.[0] ?? 'SQL', kind: SpanKind.CLIENT, attributes };
}

/** Never the message, which may have personal data in it. */
function errorType(error: unknown): string {
  const { code, name } = error as { code?: unknown; name?: unknown };
  return String(code ?? name ?? 'unknown');
}

function fail(span: Span, type: string): void {
  span.setAttribute('error.type', type).setStatus({ code: SpanStatusCode.ERROR });
}

/** A collector that is away is away for every attempt. */
function createWarning(log: Logger): (error: unknown) => void {
  let warnedAt = Number.NEGATIVE_INFINITY;
  return (err) => {
    if (performance.now() - warnedAt < WARNING_EVERY_MS) return;
    warnedAt = performance.now();
    log.warn({ err }, 'Traces could not be sent.');
  };
}
