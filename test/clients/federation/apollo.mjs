import { ApolloGateway, IntrospectAndCompose, RemoteGraphQLDataSource } from '@apollo/gateway';
import { ApolloServer } from '@apollo/server';
import { startStandaloneServer } from '@apollo/server/standalone';
import { serveOrders } from './orders.mjs';

/** What gateway.mjs does, with the composition and the gateway of Apollo. */

const { USERDIR_URL, APP_ID, APP_SECRET, ORDERS } = process.env;
const users = `${USERDIR_URL}/graphql`;
const credentials = { 'service-app-id': APP_ID, 'service-app-secret': APP_SECRET };
const orders = await serveOrders(JSON.parse(ORDERS));

const gateway = new ApolloGateway({
  supergraphSdl: new IntrospectAndCompose({
    subgraphs: [
      { name: 'users', url: users },
      { name: 'orders', url: orders.url },
    ],
    introspectionHeaders: ({ name }) => (name === 'users' ? credentials : {}),
  }),
  buildService: ({ name, url }) =>
    new RemoteGraphQLDataSource({
      url,
      willSendRequest({ request }) {
        if (name !== 'users') return;
        for (const [header, value] of Object.entries(credentials)) request.http.headers.set(header, value);
      },
    }),
});
const server = new ApolloServer({ gateway });
const { url } = await startStandaloneServer(server, { listen: { host: '127.0.0.1', port: 0 } });
process.stdout.write(`The gateway is at ${url}\n`);
process.once('SIGTERM', async () => {
  await server.stop();
  orders.close();
});
