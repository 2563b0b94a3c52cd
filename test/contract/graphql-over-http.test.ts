import { serverAudits } from 'graphql-http';
import { beforeAll, describe, expect, test } from 'vitest';
import { type TestProject, useTestApp } from '../support/app.js';

/** The audits of the GraphQL-over-HTTP specification, as its working group publishes them. */

const app = useTestApp();
let project: TestProject;
beforeAll(async () => {
  project = await app.createProject();
});

/** The audits ask as anybody would; ours are asked with credentials, without which every answer is 401. */
const fetchFn: typeof fetch = (url, init) =>
  fetch(url, { ...init, headers: { ...project.credentials, ...(init?.headers as Record<string, string>) } });

const audits = serverAudits({ url: async () => `${app.url}/graphql`, fetchFn });

describe.each(['MUST', 'SHOULD', 'MAY'] as const)('%s', (keyword) => {
  test.each(audits.filter(({ name }) => name.startsWith(keyword)).map((audit) => [audit.name, audit] as const))(
    '%s',
    async (_name, audit) => {
      const result = await audit.fn();
      expect(result.status === 'ok' ? 'ok' : `${result.status}: ${result.reason}`).toBe('ok');
    },
  );
});
