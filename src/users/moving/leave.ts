import type { ExportTarget } from '../../domain/systems.js';
import type { BanState, ExportedUser } from '../../domain/users.js';
import { type Drop, leaverOf } from './leaver.js';
import { TARGETS } from './targets.js';

/** Writes users as a system reads them, a batch at a time: it keeps nothing but counts. */
export interface Leave {
  /** The beginning of the file. */
  readonly head: string;
  /** The records of users, each with its ban. */
  write(users: readonly ExportedUser[], bans: ReadonlyMap<number, BanState>): string;
  /** The end of the file. `bans` are those of the project; null where not all its users have left. */
  end(bans: number | null): string;
  report(): LeaveReport;
}

export interface LeaveReport {
  /** The people who have left. */
  readonly users: number;
  /** Those of them who are blocked. */
  readonly bans: number;
  /** What was not kept, with how often. */
  readonly not_kept: Readonly<Record<string, number>>;
}

export function createLeave(name: ExportTarget): Leave {
  const { head, tail, toRecord, ...holds } = TARGETS[name];
  const left = { users: 0, bans: 0 };
  const notKept: Record<string, number> = {};
  const drop: Drop = (what, times = 1) => {
    if (Number(times) > 0) notKept[what] = (notKept[what] ?? 0) + Number(times);
  };

  return {
    head,
    write(users, bans) {
      let text = '';
      for (const user of users) {
        const person = leaverOf(user, bans.get(user.id) ?? null, { name, ...holds }, drop);
        const record = toRecord(person, drop);
        if (typeof record === 'string') {
          drop(record);
          continue;
        }
        text += `${left.users === 0 ? '' : ',\n'}${JSON.stringify(record)}`;
        left.users += 1;
        left.bans += Number(person.isBlocked);
      }
      return text;
    },
    end(bans) {
      drop('bans of other identities', bans === null ? 0 : bans - left.bans);
      return tail(left.users);
    },
    report: () => ({ ...left, not_kept: notKept }),
  };
}
