import type { OperatorRole } from '#dist/domain/operators.js';
import { THE_OPERATOR } from '#dist/domain/operators.js';
import type { GraphQLAnswer, Json, TestApp } from './app.js';

/** An operator with a session in the dashboard of a service, as a browser has it. */
export interface TestOperator {
  readonly name: string;
  /** The cookie of the session, as the browser sends it. */
  readonly cookie: string;
  /** A request of the dashboard’s own page. */
  fetch(path: string, init?: RequestInit): Promise<Response>;
  /** An operation; throws if it has errors. */
  ask(query: string, variables?: Record<string, unknown>): Promise<Json>;
  /** An operation with its errors. */
  graphql(query: string, variables?: Record<string, unknown>): Promise<GraphQLAnswer>;
  /** The same in a project, where operators ask the public schema. */
  inProject(appId: string): Pick<TestOperator, 'ask' | 'graphql'>;
}

let operators = 0;

/** Adds an operator with a name of their own and logs them in. */
export async function logIn(app: TestApp, role: OperatorRole, name = `${role}-${process.pid}-${operators++}`) {
  await app.context.services.operators.addOperator(THE_OPERATOR, name, role);
  return logInAgain(app, name);
}

/** Logs in an operator who exists. */
export async function logInAgain(app: TestApp, name: string): Promise<TestOperator> {
  const { token } = await app.context.services.operators.createLink(THE_OPERATOR, name);
  const response = await postToken(app, token);
  if (response.status !== 204) throw new Error(`${response.status} ${await response.text()}`);
  return operatorOf(app, name, cookieOf(response));
}

/** The cookie that a response sets, without its attributes. */
export function cookieOf(response: Response): string {
  return (response.headers.get('set-cookie') ?? '').replace(/;.*/s, '');
}

/** Logs in by a token, as the page does. */
export function postToken(app: TestApp, token: unknown, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${app.url}/dashboard/session`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin', ...headers },
    body: JSON.stringify({ token }),
  });
}

/** The operator whose session a cookie is. */
export function operatorOf(app: TestApp, name: string, cookie: string): TestOperator {
  const send = (path: string, init: RequestInit = {}) =>
    fetch(`${app.url}${path}`, {
      ...init,
      headers: { cookie, 'sec-fetch-site': 'same-origin', ...(init.headers as object) },
    });
  /** Asks the operators' schema or, in a project, the public one. */
  function asking(project?: string): Pick<TestOperator, 'ask' | 'graphql'> {
    async function graphql(query: string, variables?: Record<string, unknown>): Promise<GraphQLAnswer> {
      const response = await send('/dashboard/graphql', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ query, variables, project }),
      });
      const { data, errors } = (await response.json()) as Json;
      return { status: response.status, headers: response.headers, data, errors };
    }
    async function ask(query: string, variables?: Record<string, unknown>): Promise<Json> {
      const { data, errors } = await graphql(query, variables);
      if (errors !== undefined) throw new Error(JSON.stringify(errors));
      return data;
    }
    return { graphql, ask };
  }
  return {
    ...asking(),
    name,
    cookie,
    fetch: send,
    inProject: asking,
  };
}
