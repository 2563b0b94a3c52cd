import Fastify from 'fastify';
import { expect, test } from 'vitest';
import { decorateRequests } from '#dist/app/app.js';
import type { ProjectScope } from '#dist/domain/projects.js';
import { measure } from '#dist/telemetry/metrics.js';

test('at most 1,000 projects are counted by their App ID, and the worst of status and code is the outcome', async () => {
  const app = Fastify();
  decorateRequests(app);
  const { hooks, readMetrics } = measure(app, []);
  app.addHook('onResponse', hooks.onResponse);
  app.addHook('onRequest', async (request) => {
    request.scope = { appId: `app_${request.headers['x-project']}` } as ProjectScope;
  });
  app.get<{ Params: { status: string; code?: string } }>('/:status/:code?', async (request, reply) => {
    request.failure = request.params.code ?? null;
    return reply.code(Number(request.params.status)).send('x');
  });
  const send = (project: number, path: string) => app.inject({ path, headers: { 'x-project': String(project) } });
  for (let project = 0; project < 1_010; project += 1) await send(project, '/200');
  for (const path of ['/404/NOT_FOUND', '/200/BAD_USER_INPUT', '/503', '/200/INTERNAL_SERVER_ERROR'])
    await send(7, path);
  const text = await readMetrics();
  const lines = text.split('\n').filter((line) => line.startsWith('userdir_project_requests_total{'));
  expect(new Set(lines.map((line) => /project="(\w+)"/.exec(line)?.[1])).size).toBe(1_001);
  expect(lines.filter((line) => /"(other|app_7|app_999|app_1000)"/.test(line))).toEqual([
    'userdir_project_requests_total{project="app_7",outcome="ok"} 1',
    'userdir_project_requests_total{project="app_999",outcome="ok"} 1',
    'userdir_project_requests_total{project="other",outcome="ok"} 10',
    'userdir_project_requests_total{project="app_7",outcome="client_error"} 2',
    'userdir_project_requests_total{project="app_7",outcome="server_error"} 2',
  ]);
  await app.close();
});
