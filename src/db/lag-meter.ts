/**
 * Measures how old the answers of a standby are, by the clock of this process alone. A standby that has replayed the log up to a position
 * has everything that was committed before the primary was asked for it. So an idle primary makes no standby old, as the time of the last
 * replayed commit would, and a standby that has lost its place in the log grows old, however healthy it looks.
 */
export interface LagMeter {
  /** The primary, asked at `at`, had written its log up to `position`. */
  record(position: number, at: number): void;
  /** The age of the oldest log that a standby has not replayed, which has replayed up to `replayed`: in milliseconds, Infinity where it is not known. */
  ageOf(replayed: number, now: number): number;
  /** True if the primary, asked after `since`, has not written what a standby had replayed by then: it does not follow this primary. */
  isAhead(replayed: number, since: number): boolean;
}

/** `keptMs` is the largest age that can be told. */
export function createLagMeter(keptMs: number): LagMeter {
  let positions: { readonly position: number; readonly at: number }[] = [];
  return {
    record(position, at) {
      const last = positions.at(-1);
      // Another server has become the primary, and the end of the old log is lost.
      if (last !== undefined && position < last.position) positions = [];
      while (positions[0] !== undefined && positions[0].at < at - keptMs) positions.shift();
      positions.push({ position, at });
    },
    ageOf(replayed, now) {
      const reached = positions.findLast(({ position }) => position <= replayed);
      return reached === undefined ? Number.POSITIVE_INFINITY : now - reached.at;
    },
    isAhead(replayed, since) {
      const last = positions.at(-1);
      return last !== undefined && last.at > since && last.position < replayed;
    },
  };
}
