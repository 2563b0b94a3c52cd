import { vi } from 'vitest';
import type { Json } from './app.js';
import { PATIENCE } from './waiting.js';

/** An event of a stream of Server-Sent Events. */
export interface StreamEvent {
  readonly id: string;
  readonly event: string;
  readonly data: string;
}

/** An open stream of events. */
export interface EventStream {
  readonly status: number;
  readonly headers: Headers;
  /** Those that have arrived, without those that only tell a cursor. */
  readonly events: StreamEvent[];
  /** What those that only tell a cursor have told. */
  readonly cursors: string[];
  /** Whether the server has ended it. */
  readonly isEnded: () => boolean;
  /** Waits until so many events have arrived, and returns them. */
  waitFor(count: number): Promise<StreamEvent[]>;
  /** Waits until the server ends it. */
  ended(): Promise<StreamEvent[]>;
  close(): void;
}

export async function openEvents(url: string, init: RequestInit): Promise<EventStream> {
  const closing = new AbortController();
  const headers = { accept: 'text/event-stream', ...(init.headers as object) };
  const response = await fetch(url, { ...init, headers, signal: closing.signal });
  const events: StreamEvent[] = [];
  const cursors: string[] = [];
  let isEnded = false;
  const read = async () => {
    let text = '';
    const decoder = new TextDecoder();
    for await (const chunk of response.body ?? []) {
      text += decoder.decode(chunk as Uint8Array, { stream: true });
      const blocks = text.split('\n\n');
      text = blocks.pop() ?? '';
      for (const block of blocks) {
        const lines = block.split('\n').map((line) => [line.split(':')[0], line.replace(/^\w*: ?/, '')] as const);
        const field = (name: string) => lines.find(([key]) => key === name)?.[1];
        const data = field('data');
        if (data === undefined) continue;
        const event = { id: field('id') ?? '', event: field('event') ?? 'message', data };
        const cursor = cursorOf(event);
        if (cursor === undefined) events.push(event);
        else cursors.push(cursor);
      }
    }
  };
  void read()
    .catch(() => undefined)
    .finally(() => {
      isEnded = true;
    });
  return {
    status: response.status,
    headers: response.headers,
    events,
    cursors,
    isEnded: () => isEnded,
    async waitFor(count) {
      await vi.waitUntil(() => events.length >= count || isEnded, PATIENCE);
      return events;
    },
    async ended() {
      await vi.waitUntil(() => isEnded, PATIENCE);
      return events;
    },
    close: () => closing.abort(),
  };
}

/** The cursor of an event that tells only that, over REST or of a subscription. Undefined for another event. */
function cursorOf({ id, event, data }: StreamEvent): string | undefined {
  if (event === 'cursor') {
    if (JSON.parse(data).cursor !== id) throw new Error(`The event with the id ${id} has another cursor: ${data}`);
    return id;
  }
  const changes = event === 'next' && data !== '' ? JSON.parse(data).data?.changes : null;
  return changes?.change === null ? (changes.cursor ?? '') : undefined;
}

/** Subscribes over /graphql. */
export function subscribe(
  url: string,
  credentials: Record<string, string>,
  query: string,
  variables: Json = {},
): Promise<EventStream> {
  return openEvents(`${url}/graphql`, {
    method: 'POST',
    headers: { ...credentials, 'content-type': 'application/json' },
    body: JSON.stringify({ query, variables }),
  });
}
