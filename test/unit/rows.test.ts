import { createRequire } from 'node:module';
import type * as GraphQL from 'graphql';
import { describe, expect, test } from 'vitest';
import { chargingForRows, declaredCost, operationCost } from '#dist/engine/cost.js';
import { schema } from '#dist/graphql/schema.js';

// The same copy of the module that the schema uses. An import would load a second copy.
const { getOperationAST, parse }: typeof GraphQL = createRequire(import.meta.url)('graphql');

/** What a field charges that answers with these rows, where the operation has paid for what it asks for. */
async function chargeOf(query: string, rows: unknown[], variables: Record<string, unknown> = {}): Promise<number> {
  const document = parse(query);
  const operation = getOperationAST(document) as GraphQL.OperationDefinitionNode;
  operationCost({ schema, shown: schema, costOf: declaredCost }, document, operation);
  const resolve = chargingForRows(async () => rows);
  let charged = 0;
  const charge = (cost: number) => {
    charged += cost;
    return true;
  };
  const info = { fieldNodes: operation.selectionSet.selections, variableValues: variables };
  await resolve(undefined, {}, { charge } as never, info as never);
  return charged;
}

const users = (count: number) => Array.from({ length: count }, (_, id) => ({ id }));
const BY_IDS = 'query ($ids: [ID!]!) { usersByIds(ids: $ids) { id authValue } }';

describe('a list charges for its rows beyond those that are paid', () => {
  test.each<[number, string, unknown[], Record<string, unknown>?]>([
    // Two fields a row; three rows are the estimate of a search.
    [0, '{ searchUsers(by: { email: "a@example.com" }) { id authValue } }', users(3)],
    [14, '{ searchUsers(by: { email: "a@example.com" }) { id authValue } }', users(10)],
    [0, '{ usersByIds(ids: [1, 2]) { id authValue } }', users(2)],
    [16, '{ usersByIds(ids: [1, 2]) { id authValue } }', users(10)],
    [0, BY_IDS, users(2), { ids: ['1', '2'] }],
    [16, BY_IDS, users(10), { ids: ['1', '2'] }],
    // The rows of lists in the list count, and not the lists.
    [11_996, BY_IDS, [users(3_000), users(3_000)], { ids: ['1', '2'] }],
    [0, BY_IDS, [users(1), users(1)], { ids: ['1', '2'] }],
  ])('%d: %s', async (expected, query, rows, variables) => {
    expect(await chargeOf(query, rows, variables)).toBe(expected);
  });
});
