/**
 * How old the answers of a standby are, by the clock of this process alone. The primary is asked again and again how far its log goes. A
 * standby that has replayed the log up to such a position has everything that was committed before the primary was asked for it.
 *
 * So an idle primary makes no standby old, as the time of the last replayed commit would, and the clocks of servers do not matter. A
 * standby that has lost its place in the log stays at a position, and grows old, however healthy it looks.
 */
export interface LagMeter {
  /** The primary, asked at `at`, had written its log up to `position`. */
  record(position: number, at: number): void;
  /** How long ago there was something that a standby has not replayed, which has replayed up to `replayed`. Infinite where that is not known. */
  ageOf(replayed: number, now: number): number;
  /** Whether the primary, asked after `since`, has not written what a standby had replayed by then: it does not follow this primary. */
  isAhead(replayed: number, since: number): boolean;
}

interface Position {
  readonly position: number;
  readonly at: number;
}

/** `keptMs` is the largest age that can be told. */
export function createLagMeter(keptMs: number): LagMeter {
  let positions: Position[] = [];
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
