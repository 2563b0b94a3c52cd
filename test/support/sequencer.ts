import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** The slowest files of `slow` and `fast`, slowest first: one that starts last would run alone at the end. */
const LONGEST = `api/dashboard-streams.slow db/growth.slow api/hidden-secrets.slow db/totals.slow api/webhooks.slow
  api/rotation.slow api/second-thread.slow api/bad-input api/changes db/isolation api/isolation`.split(/\s+/);

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification) => {
      const found = LONGEST.findIndex((name) => moduleId.endsWith(`/${name}.test.ts`));
      return found < 0 ? LONGEST.length : found;
    };
    const kind = ({ project }: TestSpecification) => this.ctx.projects.indexOf(project);
    return (await super.sort(files)).sort((a, b) => kind(a) - kind(b) || place(a) - place(b));
  }
}
