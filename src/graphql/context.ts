import { GraphQLError } from 'graphql';
import type { Asker } from '../http/elsewhere.js';
import type { LoggedOperation } from '../http/request-log.js';
import type { Services } from '../services/services.js';
import type { GraphQLContext } from './builder.js';
import type { PreparedRequest } from './execution.js';
import { limitExceeded, LIMITS } from './limits.js';
import { unitsOfCost } from './weight.js';

/** A smaller operation starts all its root fields at once, so that their reads share statements. */
const LARGE_COST = 2_000;
const ASK_FOR_LESS =
  'The users that match, their accounts, or the changes that were looked at, are more than one answer can have: ask for fewer at once.';

/** The context of the resolvers of a request, or of an event of a subscription. */
export function contextOf(
  { id, scope, addWeight, report }: Asker,
  prepared: PreparedRequest | null,
  services: Services,
  follower: GraphQLContext['follower'] = null,
): GraphQLContext {
  const paid = prepared?.cost ?? 0;
  /** The most that was charged: a second execution weighs only what is beyond the first. */
  let weighed = paid;

  /** Counts the cost of one execution. */
  function countCost(): GraphQLContext['charge'] {
    let charged = paid;
    return (cost) => {
      charged += cost;
      if (charged > weighed) {
        addWeight(unitsOfCost(charged) - unitsOfCost(weighed));
        weighed = charged;
      }
      if (charged <= LIMITS.cost || prepared === null) return true;
      // A mutation is always answered, because its work is done.
      if (prepared.operation?.node.operation === 'mutation') return true;
      prepared.refusal ??= [new GraphQLError(`${limitExceeded('cost', 'more')} ${ASK_FOR_LESS}`)];
      return false;
    };
  }

  const context: GraphQLContext = {
    scope,
    services,
    requestId: id,
    follower,
    isLarge: paid >= LARGE_COST,
    charge: countCost(),
    again: () => ({ ...context, charge: countCost() }),
    report,
  };
  return context;
}

/** The operation of a request as the log and the metrics name it. */
export function operationOf({ operation, cost }: PreparedRequest): LoggedOperation | null {
  return operation && { type: operation.node.operation, name: operation.loggedName, cost };
}
