import { createServer } from 'node:http';
import SchemaBuilder from '@pothos/core';
import PrismaPlugin from '@pothos/plugin-prisma';
import RelayPlugin from '@pothos/plugin-relay';
import { PrismaPg } from '@prisma/adapter-pg';
import { createYoga } from 'graphql-yoga';
import { getDatamodel } from '../../../dist/db/generated/pothos.js';
import { PrismaClient } from '../../../dist/db/generated/prisma/client.js';

/**
 * Peer d: Yoga, Pothos and Prisma as their documentation puts them together: prismaField, t.relation, prismaConnection.
 * It goes beyond it in one thing, named prepared statements. It uses the client that the build of userdir generates. For a gateway it
 * finds each entity by findUnique, as Pothos documents for `resolveReference`; Prisma makes one statement of those of a request.
 */

const projectId = Number(process.env['PROJECT_ID']);
const adapter = new PrismaPg(
  {
    connectionString: process.env['DATABASE_URL'],
    max: Number(process.env['DATABASE_POOL_SIZE']),
    idleTimeoutMillis: 0,
    // Prisma's adapter takes the digits of a timestamp for UTC (prisma#26786).
    options: '-c TimeZone=UTC',
  },
  { statementNameGenerator: ({ sql }) => nameOf(sql) },
);
const prisma = new PrismaClient({ adapter });

const names = new Map();
function nameOf(sql) {
  if (!names.has(sql)) names.set(sql, `textbook_${names.size}`);
  return names.get(sql);
}

const builder = new SchemaBuilder({
  plugins: [PrismaPlugin, RelayPlugin],
  relay: { nodesOnConnection: true },
  prisma: { client: prisma, dmmf: getDatamodel() },
});

builder.scalarType('DateTime', { serialize: (instant) => instant.toISOString() });
const network = builder.enumType('Network', {
  values: { STELLAR: { value: 'stellar' }, ETHEREUM: { value: 'ethereum' } },
});
const walletType = builder.enumType('WalletType', {
  values: { CUSTODIAL: { value: 'custodial' }, EXTERNAL: { value: 'external' } },
});

const user = builder.prismaObject('User', {
  fields: (t) => ({
    id: t.id({ resolve: ({ id }) => String(id) }),
    authMethod: t.exposeString('authMethod'),
    authValue: t.exposeString('authValue'),
    wallet: t.exposeString('wallet', { nullable: true }),
    createdAt: t.expose('createdAt', { type: 'DateTime' }),
    lastLogin: t.expose('lastLogin', { type: 'DateTime', nullable: true }),
    loginCount: t.exposeInt('loginCount'),
    accounts: t.relation('accounts', { query: { orderBy: { id: 'asc' } } }),
  }),
});

builder.prismaObject('Account', {
  fields: (t) => ({
    id: t.id({ resolve: ({ id }) => String(id) }),
    network: t.expose('network', { type: network }),
    publicKey: t.exposeString('publicKey'),
    walletType: t.expose('walletType', { type: walletType }),
  }),
});

builder.scalarType('_Any', { serialize: (value) => value, parseValue: (value) => value });
const entity = builder.unionType('_Entity', { types: [user], resolveType: () => user });

builder.queryType({
  fields: (t) => ({
    _entities: t.field({
      type: [entity],
      nullable: { list: false, items: true },
      args: { representations: t.arg({ type: ['_Any'], required: true }) },
      resolve: (_root, { representations }) =>
        Promise.all(
          representations.map(({ id }) =>
            prisma.user.findUnique({ where: { projectId_id: { projectId, id: BigInt(id) }, deletedAt: null } }),
          ),
        ),
    }),
    user: t.prismaField({
      type: 'User',
      nullable: true,
      args: { id: t.arg.id({ required: true }) },
      resolve: (query, _root, { id }) =>
        prisma.user.findUnique({ ...query, where: { projectId_id: { projectId, id: BigInt(id) }, deletedAt: null } }),
    }),
    users: t.prismaConnection({
      type: 'User',
      cursor: 'projectId_id',
      maxSize: 100,
      totalCount: () => prisma.user.count({ where: { projectId, deletedAt: null } }),
      resolve: (query) =>
        prisma.user.findMany({
          ...query,
          where: { projectId, deletedAt: null },
          orderBy: [{ createdAt: 'desc' }, { id: 'desc' }],
        }),
    }),
  }),
});

const yoga = createYoga({ schema: builder.toSchema(), graphiql: false, landingPage: false, logging: 'error' });
const server = createServer(yoga);
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`${JSON.stringify({ url: `http://127.0.0.1:${server.address().port}` })}\n`);
});
