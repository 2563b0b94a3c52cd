import type { Services } from '../context.js';
import { countCosts, isLarge, type PreparedRequest } from '../engine/execution.js';
import type { GraphQLContext, Requester } from './builder.js';

/** The context of the resolvers of a request, or of an event of a subscription. */
export function contextOf(
  { id, scope, until, addWeight, report }: Requester,
  prepared: PreparedRequest | null,
  services: Services,
  { follower = null, guard = null }: Partial<Pick<GraphQLContext, 'follower' | 'guard'>> = {},
): GraphQLContext {
  const countCost = countCosts(prepared, addWeight);
  const context: GraphQLContext = {
    scope,
    project: scope.appId,
    services,
    requestId: id,
    until,
    follower,
    guard,
    isLarge: prepared !== null && isLarge(prepared),
    charge: countCost(),
    again: (outcome) => ({ ...context, charge: countCost(), outcome }),
    report,
    docsOf: services.docsOf,
  };
  return context;
}
