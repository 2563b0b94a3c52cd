/* Which of the writes that wait may start now (batched-write.ts): a plan alone, which changes nothing. */

/** A statement has at most so many keys, and rows. */
const MAX_KEYS = 64;
const MAX_WEIGHT = 500;
/** So many keys start a statement beside one under way; fewer wait for its end. So the database has work while this process writes answers. */
const FULL_BATCH = 5;
const CONCURRENT_STATEMENTS = 2;
/** Keys that are written alone at the same time: of one project, and of all. They may wait for a lock, and each has a connection. */
const ALONE_OF_PROJECT = 2;
const ALONE = 6;

/** What the plan asks about keys. */
export interface PlannedKeys<Key> {
  /** Equal for keys that one statement can write. */
  readonly groupKey: (key: Key) => unknown;
  /** The rows that a key may write. */
  readonly weigh: (key: Key) => number;
}

/** What the plan looks at of a call that waits. */
export interface PlannedCall<Key> {
  readonly key: Key;
  /** Calls with one in common are written one after the other. */
  readonly changes: readonly string[];
  /** True if it is written by a statement of its own. */
  readonly isAlone: boolean;
}

/** The statements under way. */
export interface StatementsUnderWay {
  /** The changes of all of them. */
  readonly changing: ReadonlySet<string>;
  /** How many several keys share, or may share. */
  readonly shared: number;
  /** The projects of the keys that are written alone. */
  readonly alone: readonly number[];
}

export interface WritePlan<Call> {
  /** Start now, by one statement. */
  readonly together: Call[];
  /** Start now, each by a statement of its own. */
  readonly alone: Call[];
  /** Go on waiting, in this order. */
  readonly waiting: Call[];
}

/** True if a statement that keys share may start now. */
export function mayShare({ shared }: Pick<StatementsUnderWay, 'shared'>, waiting: number): boolean {
  return shared === 0 || (shared < CONCURRENT_STATEMENTS && waiting >= FULL_BATCH);
}

/** What may start now, of calls in their order. */
export function planWrites<Key extends { readonly projectId: number }, Call extends PlannedCall<Key>>(
  waiting: readonly Call[],
  underWay: StatementsUnderWay,
  { groupKey, weigh }: PlannedKeys<Key>,
): WritePlan<Call> {
  const plan: WritePlan<Call> = { together: [], alone: [], waiting: [] };
  /** The changes of statements under way, or of a call before this one. */
  const blocked = new Set(underWay.changing);
  const projects = [...underWay.alone];
  let room = mayShare(underWay, waiting.length) ? MAX_WEIGHT : 0;

  const fits = (key: Key, weight: number) => {
    const first = plan.together[0]?.key;
    if (first === undefined) return room > 0;
    return weight <= room && plan.together.length < MAX_KEYS && groupKey(first) === groupKey(key);
  };

  for (const call of waiting.length > MAX_KEYS ? inTurns(waiting) : waiting) {
    const { key, changes } = call;
    const isFree = !changes.some((change) => blocked.has(change));
    for (const change of changes) blocked.add(change);
    if (!isFree) plan.waiting.push(call);
    else if (call.isAlone) {
      if (mayStartAlone(projects, key.projectId)) {
        projects.push(key.projectId);
        plan.alone.push(call);
      } else plan.waiting.push(call);
    } else {
      const weight = weigh(key);
      if (fits(key, weight)) {
        room -= weight;
        plan.together.push(call);
      } else plan.waiting.push(call);
    }
  }
  return plan;
}

function mayStartAlone(projects: readonly number[], projectId: number): boolean {
  return projects.length < ALONE && projects.filter((project) => project === projectId).length < ALONE_OF_PROJECT;
}

/** The first call of each project, then the second of each, and so on: a project with many delays the others by one. */
function inTurns<Call extends PlannedCall<{ readonly projectId: number }>>(calls: readonly Call[]): Call[] {
  const counts = new Map<number, number>();
  const turns: Call[][] = [];
  for (const call of calls) {
    const turn = counts.get(call.key.projectId) ?? 0;
    counts.set(call.key.projectId, turn + 1);
    const calls = turns[turn];
    if (calls === undefined) turns.push([call]);
    else calls.push(call);
  }
  return turns.flat();
}
