import { createServer } from 'node:http';
import { postgraphile } from 'postgraphile';
import { makePgService } from 'postgraphile/adaptors/pg';
import { grafserv } from 'postgraphile/grafserv/node';
import { PostGraphileAmberPreset } from 'postgraphile/presets/amber';

/**
 * Peer c: PostGraphile 5 as its documentation sets it up for production, over the two views that data.mjs makes for it: the
 * current users of the project and their accounts, and nothing else. For writes it has a function, which write-data.mjs makes. Prepared statements are its default, and without pgSettings it
 * opens no transaction.
 */

const preset = {
  extends: [PostGraphileAmberPreset],
  pgServices: [
    makePgService({
      connectionString: process.env['DATABASE_URL'],
      schemas: ['postgraphile'],
      poolConfig: { max: Number(process.env['DATABASE_POOL_SIZE']), idleTimeoutMillis: 0 },
    }),
  ],
  schema: { defaultBehavior: '+list' },
  grafserv: { watch: false, graphiql: false, websockets: false, outputDataAsString: true },
  grafast: { explain: false },
};

const service = postgraphile(preset).createServ(grafserv);
const server = createServer();
await service.addTo(server);
await service.ready();
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`${JSON.stringify({ url: `http://127.0.0.1:${server.address().port}` })}\n`);
});
