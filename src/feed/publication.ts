/** Up to where the feed can be read, as far as this process knows. */
export interface Publication {
  /** The id of the last change that can be read. */
  published(): number;
  /** Takes notice of what is published, and of the last change, which may not be yet. Tells the listeners. */
  announce(published: number, last?: number): void;
  /** Takes notice of a change that is not published yet. */
  awaitNext(): void;
  /** Calls back with up to where is published, whenever that has changed. Returns a function that ends it. */
  listen(listener: (published: number) => void): () => void;
  hasListeners(): boolean;
  /** Waits for a listener, or for `wake`. */
  untilListened(): Promise<void>;
  wake(): void;
  /** True if there are listeners, or were changes a moment ago: then the next change is to be published soon. */
  isBusy(): boolean;
  /** For how long there have been changes that are not published, in seconds, as far as this process knows. */
  lagSeconds(): number;
}

/** It counts as busy for so long after a change. */
const BUSY_FOR_MS = 5_000;

export function createPublication(): Publication {
  const listeners = new Set<(published: number) => void>();
  let wake = () => {};
  let published = 0;
  let busyUntil = 0;
  let pendingSince: number | null = null;

  function awaitNext(): void {
    pendingSince ??= performance.now();
  }

  return {
    published: () => published,
    awaitNext,

    announce(upto, last = upto) {
      if (last <= upto) pendingSince = null;
      else awaitNext();
      if (upto === published) return;
      published = upto;
      busyUntil = performance.now() + BUSY_FOR_MS;
      for (const listener of [...listeners]) listener(upto);
    },

    listen(listener) {
      listeners.add(listener);
      wake();
      return () => void listeners.delete(listener);
    },

    hasListeners: () => listeners.size > 0,

    async untilListened() {
      if (listeners.size > 0) return;
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    },

    wake: () => wake(),
    isBusy: () => listeners.size > 0 || performance.now() < busyUntil,
    lagSeconds: () => (pendingSince === null ? 0 : (performance.now() - pendingSince) / 1_000),
  };
}

/** Publishes, by the means of one kind of database. */
export interface PublisherEngine {
  /** Starts to publish, or to follow the process that does. Called by the first reader, or when a server opens its database. */
  start(): void;
  /** Waits until the changes up to an id are published, unless a transaction that stays open holds them up. */
  waitFor(upto: number): Promise<void>;
  /** Resolves when it has ended, after it was stopped. */
  ended(): Promise<void>;
}
