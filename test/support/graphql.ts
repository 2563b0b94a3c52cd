import type { GraphQLAnswer, Json, TestApp, TestProject } from './app.js';

/** The codes of all errors of an answer. Tests expect the whole list, so that they notice a second error. */
export function codesOf({ errors }: Pick<GraphQLAnswer, 'errors'>): string[] {
  return (errors ?? []).map((error) => error.extensions.code);
}

/** A code in the `extensions` of an error, with the address of its documentation. */
export function explained(code: string) {
  return { code, docs: `/docs/errors#${code}` };
}

/** Sends a raw request to /graphql; does not parse the body. */
export async function requestGraphQL(
  app: TestApp,
  init: RequestInit,
  search = '',
): Promise<{ status: number; headers: Headers; text: string }> {
  const response = await fetch(`${app.url}/graphql${search}`, init);
  return { status: response.status, headers: response.headers, text: await response.text() };
}

/** Expects the only form of an answer without data: `{"errors": [{"message", "extensions": {"code", "docs"}}]}`, with `retryAfter` where a retry helps, and `argument`. */
export function expectGraphQLRefusal(text: string): { message: string; code: string } {
  const body: Json = JSON.parse(text);
  if (Object.keys(body).join() !== 'errors' || body.errors.length !== 1) throw new Error(`Not one refusal: ${text}`);
  const { message, extensions } = body.errors[0];
  const { code, docs, retryAfter, argument = '', ...others } = extensions;
  const mayRetry = ['RATE_LIMITED', 'UNAVAILABLE'].includes(code);
  if (typeof message !== 'string' || typeof code !== 'string' || Object.keys(others).length > 0)
    throw new Error(`Not one refusal: ${text}`);
  if (typeof argument !== 'string') throw new Error(`A wrong argument: ${text}`);
  if (docs !== explained(code).docs) throw new Error(`Not its documentation: ${text}`);
  if (mayRetry !== (typeof retryAfter === 'number')) throw new Error(`A wrong retryAfter: ${text}`);
  return { message, code };
}

/** A project with a user NAME@example.com for each name, each one minute newer than the previous one. */
export async function addNamedUsers(app: TestApp, ...names: string[]): Promise<TestProject> {
  const project = await app.createProject();
  await project.addUsers(
    ...names.map((name, index) => ({
      auth_method: 'email',
      auth_value: `${name}@example.com`,
      created_at: new Date(Date.UTC(2026, 0, 1, 0, index)).toISOString(),
    })),
  );
  return project;
}

/** The ids of these users by name. */
export async function idsOf(project: TestProject): Promise<Record<string, string>> {
  const { data } = await project.graphql('{ users(first: 100) { nodes { id authValue } } }');
  return Object.fromEntries(data.users.nodes.map((user: Json) => [user.authValue.split('@')[0], user.id]));
}

/** The names of these users in an answer, in order. */
export function namesOf(users: { authValue: string }[]): (string | undefined)[] {
  return users.map((user) => user.authValue.split('@')[0]);
}
