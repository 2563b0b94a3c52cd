import { createServer } from 'node:http';
import { createGatewayRuntime } from '@graphql-hive/gateway-runtime';
import http from '@graphql-mesh/transport-http';
import { composeServices } from '@theguild/federation-composition';
import { createSchema, createYoga } from 'graphql-yoga';

/**
 * A gateway over two subgraphs: this service at SERVICE_URL, and orders, which belong to its users. Composes the supergraph from what
 * the subgraphs tell of themselves, prints the URL of the gateway, and runs until its input ends. ORDERS are JSON: `[id, userId]`.
 */

const { SERVICE_URL, APP_ID, APP_SECRET } = process.env;
const orders = JSON.parse(process.env.ORDERS).map(([id, userId]) => ({ id, user: { __typename: 'User', id: userId } }));

const ORDERS_SDL = `
  type Query { orders: [Order!]! }
  type Order @key(fields: "id") { id: ID!  user: User }
  type User @key(fields: "id") { id: ID!  orders: [Order!]! }
  # A connection of this subgraph too.
  type PageInfo @shareable { hasNextPage: Boolean! }
`;
const LINK = 'extend schema @link(url: "https://specs.apollo.dev/federation/v2.0", import: ["@key", "@shareable"])';
const FEDERATION_SDL = `
  directive @key(fields: String!) on OBJECT
  directive @shareable on OBJECT
  scalar _Any
  union _Entity = User | Order
  type _Service { sdl: String! }
  extend type Query { _service: _Service!  _entities(representations: [_Any!]!): [_Entity]! }
`;

const ordersSchema = createSchema({
  typeDefs: ORDERS_SDL + FEDERATION_SDL,
  resolvers: {
    Query: {
      orders: () => orders,
      _service: () => ({ sdl: LINK + ORDERS_SDL }),
      _entities: (_root, { representations }) => representations,
    },
    User: { orders: ({ id }) => orders.filter(({ user }) => user.id === id) },
    _Entity: { __resolveType: ({ __typename }) => __typename },
  },
});

const servers = [];

async function listen(handler) {
  const server = createServer(handler);
  servers.push(server);
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${server.address().port}/graphql`;
}

async function readSdl(url, headers) {
  const response = await fetch(url, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ query: '{ _service { sdl } }' }),
  });
  return (await response.json()).data._service.sdl;
}

const users = `${SERVICE_URL}/graphql`;
const credentials = { 'service-app-id': APP_ID, 'service-app-secret': APP_SECRET };
const ordersUrl = await listen(createYoga({ schema: ordersSchema, logging: 'error' }));
const { parse } = await import('graphql');
const { supergraphSdl, errors } = composeServices([
  { name: 'users', url: users, typeDefs: parse(await readSdl(users, credentials)) },
  { name: 'orders', url: ordersUrl, typeDefs: parse(await readSdl(ordersUrl, {})) },
]);
if (errors) throw new AggregateError(errors, errors.map(({ message }) => message).join('\n'));

const gateway = createGatewayRuntime({
  supergraph: supergraphSdl,
  transports: { http },
  logging: 'error',
  maskedErrors: false,
  // A gateway that serves one project has its credentials; callers of the gateway do not.
  propagateHeaders: { fromClientToSubgraphs: ({ subgraphName }) => (subgraphName === 'users' ? credentials : {}) },
});
process.stdout.write(`${JSON.stringify({ url: await listen(gateway) })}\n`);
process.stdin.resume().on('end', async () => {
  await gateway[Symbol.asyncDispose]?.();
  for (const server of servers) {
    server.close();
    server.closeAllConnections();
  }
});
