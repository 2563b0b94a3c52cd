// A second subgraph: orders, which belong to users. gateway.mjs puts it beside userdir. `npm i graphql graphql-yoga`
import { createServer } from 'node:http';
import { createSchema, createYoga } from 'graphql-yoga';

const SDL = `
  type Query { orders: [Order!]! }
  type Order @key(fields: "id") { id: ID!  user: User }
  type User @key(fields: "id") { id: ID!  orders: [Order!]! }
  # A connection of this subgraph too.
  type PageInfo @shareable { hasNextPage: Boolean! }
`;
const LINK = 'extend schema @link(url: "https://specs.apollo.dev/federation/v2.0", import: ["@key", "@shareable"])';
const FEDERATION = `
  directive @key(fields: String!) on OBJECT
  directive @shareable on OBJECT
  scalar _Any
  union _Entity = User | Order
  type _Service { sdl: String! }
  extend type Query { _service: _Service!  _entities(representations: [_Any!]!): [_Entity]! }
`;

/** Serves orders, each an id and the id of its user. Returns the URL of the subgraph, and a function that ends it. */
export async function serveOrders(pairs) {
  const orders = pairs.map(([id, userId]) => ({ id, user: { __typename: 'User', id: userId } }));
  const resolvers = {
    Query: {
      orders: () => orders,
      _service: () => ({ sdl: LINK + SDL }),
      _entities: (_root, { representations }) => representations,
    },
    User: { orders: ({ id }) => orders.filter(({ user }) => user.id === id) },
    _Entity: { __resolveType: ({ __typename }) => __typename },
  };
  const yoga = createYoga({ schema: createSchema({ typeDefs: SDL + FEDERATION, resolvers }), logging: 'error' });
  return listen(yoga);
}

/** Listens on a free port of this machine, or on `port`. */
export async function listen(handler, port = 0) {
  const server = createServer(handler);
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  const close = () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${server.address().port}/graphql`, close };
}
