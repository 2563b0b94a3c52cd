import { close, open, readFileSync } from 'node:fs';
import { devNull } from 'node:os';
import type { FastifyInstance } from 'fastify';

const CHECK_MS = 1_000;
/** The warning is repeated at most so often. */
const REPEAT_MS = 60_000;

/** Warns while the process has no file descriptor left: Node.js then closes every new connection, and emits no event. */
export function watchDescriptors(app: FastifyInstance): void {
  // Now, because to read it takes a descriptor.
  const limit = readLimit();
  let warnedAt = Number.NEGATIVE_INFINITY;
  function check(error: NodeJS.ErrnoException | null, descriptor: number): void {
    if (error === null) close(descriptor);
    if (error?.code !== 'EMFILE' || performance.now() - warnedAt < REPEAT_MS) return;
    warnedAt = performance.now();
    app.log.warn(
      `All ${limit} file descriptors of this process are in use, so new connections are closed at once. Raise the limit: ` +
        'LimitNOFILE= in systemd, --ulimit nofile= in Docker, ulimit -n in a shell.',
    );
  }
  const timer = setInterval(() => open(devNull, check), CHECK_MS).unref();
  app.addHook('onClose', async () => clearInterval(timer));
}

/** The number of descriptors that the process may have; an empty text where only the operating system knows it. */
function readLimit(): string {
  try {
    return /^Max open files +\d+ +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? '';
  } catch {
    return '';
  }
}
