import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Json } from './app.js';

/** A span from OTLP JSON, with its attributes as an object. */
export interface CollectedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly name: string;
  readonly kind: number;
  readonly attributes: Record<string, string | number>;
  readonly links: { traceId: string; spanId: string }[];
  readonly status: { code?: number };
  readonly startedAt: bigint;
  readonly endedAt: bigint;
}

export interface Collector {
  readonly url: string;
  readonly spans: CollectedSpan[];
  /** All received bodies as text. */
  readonly text: () => string;
  /** The headers of the last request. */
  readonly headers: () => IncomingHttpHeaders;
  /** The resource attributes of the sender. */
  readonly resource: () => Record<string, string | number>;
  /** Resolves with the first result of `look`, as soon as there is one. */
  find<Found>(look: (spans: CollectedSpan[]) => Found | undefined): Promise<Found>;
  close(): Promise<void>;
}

/** Stands in for the OpenTelemetry Collector: accepts traces by OTLP over HTTP as JSON. */
export async function startCollector(): Promise<Collector> {
  const bodies: string[] = [];
  const spans: CollectedSpan[] = [];
  let resource = {};
  let headers: IncomingHttpHeaders = {};
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks).toString();
    bodies.push(body);
    headers = request.headers;
    if (request.url === '/v1/traces' && request.headers['content-type'] === 'application/json') {
      for (const { resource: sender, scopeSpans } of JSON.parse(body).resourceSpans) {
        resource = attributesOf(sender);
        for (const scope of scopeSpans) spans.push(...scope.spans.map(toSpan));
      }
    }
    response.setHeader('content-type', 'application/json').end('{}');
    server.emit('spans');
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    text: () => bodies.join('\n'),
    headers: () => headers,
    resource: () => resource,
    async find(look) {
      for (;;) {
        const found = look(spans);
        if (found !== undefined) return found;
        await once(server, 'spans');
      }
    },
    async close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

function toSpan(span: Json): CollectedSpan {
  const { traceId, spanId, parentSpanId, name, kind, links = [], status = {} } = span;
  return {
    traceId,
    spanId,
    parentSpanId,
    name,
    kind,
    links,
    status,
    attributes: attributesOf(span),
    startedAt: BigInt(span.startTimeUnixNano),
    endedAt: BigInt(span.endTimeUnixNano),
  };
}

function attributesOf({ attributes = [] }: Json): Record<string, string | number> {
  return Object.fromEntries(
    attributes.map(({ key, value }: Json) => [key, value.stringValue ?? Number(value.intValue ?? value.doubleValue)]),
  );
}
