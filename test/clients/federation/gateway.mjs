// A gateway over userdir and orders.mjs. `npm i graphql graphql-yoga @graphql-hive/gateway-runtime @graphql-mesh/transport-http @theguild/federation-composition`
import { createGatewayRuntime } from '@graphql-hive/gateway-runtime';
import http from '@graphql-mesh/transport-http';
import { composeServices } from '@theguild/federation-composition';
import { parse } from 'graphql';
import { listen, serveOrders } from './orders.mjs';

const {
  USERDIR_URL = 'http://127.0.0.1:4000',
  APP_ID,
  APP_SECRET,
  PORT = '4001',
  ORDERS = '[["o1", "1"]]',
} = process.env;
const users = `${USERDIR_URL}/graphql`;
const credentials = { 'service-app-id': APP_ID, 'service-app-secret': APP_SECRET };
const orders = await serveOrders(JSON.parse(ORDERS));

/** What a subgraph tells of itself. In production, compose when you deploy, not when you start. */
async function readSdl(url, headers) {
  const body = JSON.stringify({ query: '{ _service { sdl } }' });
  const response = await fetch(url, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body,
  });
  const { data, errors } = await response.json();
  if (errors) throw new Error(`${url}: ${errors[0].message}`);
  return data._service.sdl;
}

const { supergraphSdl, errors } = composeServices([
  { name: 'users', url: users, typeDefs: parse(await readSdl(users, credentials)) },
  { name: 'orders', url: orders.url, typeDefs: parse(await readSdl(orders.url, {})) },
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
const { url, close } = await listen(gateway, Number(PORT));
process.stdout.write(`The gateway is at ${url}\n`);
process.once('SIGTERM', async () => {
  await gateway[Symbol.asyncDispose]?.();
  close();
  orders.close();
});
