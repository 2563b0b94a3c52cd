import type { PreparedRequest } from '../engine/execution.js';
import type { Guard, Requester } from '../graphql/builder.js';
import { contextOf } from '../graphql/context.js';
import { type DashboardContext, withRightsOfNow } from './builder.js';

/*
 * An operator in a project is a caller of the project: what callers have is not written again for operators. A page or a command sends a
 * document of the public schema together with its project, and the document is executed with the rights of the operator's role.
 */

export { schema } from '../graphql/schema.js';

/** What the resolvers of the public schema get for an operator. NOT_FOUND where the operator has no such project. */
export async function contextOfCaller(
  context: DashboardContext,
  appId: string,
  prepared: PreparedRequest | null,
  addWeight: Requester['addWeight'],
) {
  const { requestId: id, until, report, services } = context;
  const guard: Guard = ({ name, isChange }, resolve) =>
    withRightsOfNow(context, { name, isChange, appId }, async (now) =>
      resolve({ ...asCaller, scope: await now.scopeOf(appId), until: now.until }),
    );
  const scope = await context.scopeOf(appId);
  const asCaller = contextOf({ id, scope, until, addWeight, report }, prepared, services, { guard });
  return asCaller;
}
