import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** The slowest files of `fast`, which ends a run, slowest first: a slow file that starts last would run alone at the end. */
const LONGEST = [
  'db/totals',
  'api/graphql-limits',
  'contract/conformance',
  'api/hostile-http',
  'contract/failed-authentication-limit',
  'api/fuzz',
  'api/searches',
  'api/differential',
  'api/bad-input',
  'unit/identities',
  'api/cursors',
  'unit/addresses',
];

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
