import { execute, GraphQLError, parse, validate } from 'graphql';
import type { Services } from '../context.js';
import { snakeCase } from '../domain/identities.js';
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
    spelling: snakeCase,
    requestId: null,
    until: Number.POSITIVE_INFINITY,
    isAwaited: () => true,
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

/** Throws BAD_USER_INPUT for a document that the schema does not have. The build has checked the documents of this release. */
export function requireValid(text: string): void {
  const [fault] = faultsOf(text);
  if (fault !== undefined) throw new AppError('BAD_USER_INPUT', `query: ${fault.message}`);
}

function faultsOf(text: string): readonly GraphQLError[] {
  try {
    return validate(schema, parse(text));
  } catch (error) {
    if (error instanceof GraphQLError) return [error];
    throw error;
  }
}

/** Executes a valid document. Throws what the first field that failed has thrown. */
export async function executeDocument(
  text: string,
  variableValues: Readonly<Record<string, unknown>>,
  contextValue: DashboardContext,
): Promise<Record<string, unknown>> {
  const { data, errors = [] } = await execute({ schema, document: parse(text), variableValues, contextValue });
  const [error] = errors;
  if (error !== undefined) throw error.originalError ?? new AppError('BAD_USER_INPUT', error.message);
  return data as Record<string, unknown>;
}
