import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** The slowest files, slowest first: one that starts last would run alone at the end. */
const LONGEST =
  `upgrade/upgrade process/embedded browser/dashboard-widths browser/dashboard-screens browser/guides package/package
  package/readme faults/data-dir-lock faults/frozen-leader faults/changes faults/crashes faults/database-faults process/long-lists
  process/commands process/serve browser/dashboard-webhooks browser/pages browser/dashboard-journeys
  db/growth.slow api/dashboard-streams.slow db/totals.slow api/hidden-secrets.slow
  api/rate-limit.slow api/request-time.slow api/webhooks api/passkeys api/limits api/dashboard-schema api/change-streams
  api/changes api/bad-input api/isolation api/external-ids db/isolation`.split(/\s+/);

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const length = ({ moduleId }: TestSpecification) => {
      const place = LONGEST.findIndex((name) => moduleId.endsWith(`/${name}.test.ts`));
      return place < 0 ? LONGEST.length : place;
    };
    const sorted = (await super.sort(files)).sort((a, b) => length(a) - length(b));
    // Files of faults and packages mostly wait, those of the browser compute: each kind is spread over the run. Those of `slow` and
    // `fast` come last, kind by kind, as the files of a worker share a database.
    const ranks = new Map<TestSpecification, number>();
    for (const [place, project] of this.ctx.projects.entries()) {
      const own = sorted.filter((file) => file.project === project);
      const isShared = /^(slow|fast)/.test(project.name);
      for (const [index, file] of own.entries()) ranks.set(file, isShared ? 1 + place : index / own.length);
    }
    return sorted.sort((a, b) => (ranks.get(a) ?? 0) - (ranks.get(b) ?? 0));
  }
}
