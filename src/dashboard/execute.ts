import {
  type DocumentNode,
  type ExecutionArgs,
  type ExecutionResult,
  execute,
  GraphQLError,
  parse,
  validate,
} from 'graphql';
import type { Services } from '../context.js';
import type { Operator } from '../domain/operators.js';
import { AppError } from '../errors.js';
import { createScopes, type DashboardContext } from './builder.js';
import { schema } from './schema.js';

/* Executes the documents of commands: in the process of the command, or in the server that holds its database. */

export type CommandPlace = Pick<DashboardContext, 'status' | 'dashboardUrl' | 'report'>;

/** What resolvers get where a command asks. Nothing that it does is limited by the minute, and no right is lost meanwhile. */
export function contextOfCommand(services: Services, operator: Operator, place: CommandPlace): DashboardContext {
  const unlimited = async () => undefined;
  const context: DashboardContext = {
    ...place,
    browser: null,
    operator,
    services,
    requestId: null,
    until: Number.POSITIVE_INFINITY,
    scopeOf: createScopes(services, operator),
    renew: async () => context,
    // The person who runs the command is told, too.
    report(failure) {
      place.report(failure);
      throw failure;
    },
    count: { change: unlimited, refusal: unlimited },
  };
  return context;
}

/** Loaded when it is needed: few commands ask for what callers have. */
const loadCaller = () => import('./caller.js');

/** The document of a command that may be of another release. BAD_USER_INPUT if its schema, in a project that of callers, does not have it. */
export async function readValid(text: string, project?: string): Promise<DocumentNode> {
  try {
    const document = parse(text);
    const [fault] = validate(project === undefined ? schema : (await loadCaller()).schema, document);
    if (fault !== undefined) throw fault;
    return document;
  } catch (error) {
    if (error instanceof GraphQLError) throw new AppError('BAD_USER_INPUT', `query: ${error.message}`);
    throw error;
  }
}

/**
 * Executes a valid document, in a project one of the public schema: the build has checked those of this release. Throws the error of the first
 * field that failed.
 */
export async function executeDocument(
  valid: string | DocumentNode,
  variableValues: Readonly<Record<string, unknown>>,
  context: DashboardContext,
  project?: string,
): Promise<Record<string, unknown>> {
  const document = typeof valid === 'string' ? parse(valid) : valid;
  const asked = { document, variableValues };
  const { data, errors = [] } =
    project === undefined
      ? await execute({ ...asked, schema, contextValue: context })
      : await executeInProject(asked, context, project);
  const [error] = errors;
  if (error !== undefined) throw error.originalError ?? new AppError('BAD_USER_INPUT', error.message);
  return data as Record<string, unknown>;
}

type Asked = Pick<ExecutionArgs, 'document' | 'variableValues'>;

async function executeInProject(asked: Asked, context: DashboardContext, project: string): Promise<ExecutionResult> {
  const { contextOfCaller, schema: ofCallers } = await loadCaller();
  // No one waits behind a command.
  const contextValue = await contextOfCaller(context, project, null, () => undefined);
  return execute({ ...asked, schema: ofCallers, contextValue });
}
