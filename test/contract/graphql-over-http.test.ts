import { serverAudits } from 'graphql-http';
import { beforeAll, describe, expect, test } from 'vitest';
import { type TestProject, useTestApp } from '../support/app.js';

/** The audits that the working group of the GraphQL-over-HTTP specification publishes. */

const app = useTestApp();
let project: TestProject;
beforeAll(async () => {
  project = await app.createProject();
});

/** The audits send no credentials; this adds them, because every answer would be 401 otherwise. */
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
