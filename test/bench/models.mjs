import { parseConfig } from '../../dist/config/config.js';
import { createContext } from '../../dist/context.js';
import { Prisma } from '../../dist/db/statements.js';

/* `DATABASE_URL=… node test/bench/models.mjs`, after `npm run build`: what a call of a Prisma model takes beside a statement, in ms. */

const TIMES = 300;
const context = createContext(parseConfig(process.env), { command: 'bench' });
await context.open();
const ways = {
  statement: () => context.db.query(Prisma.sql`SELECT name, role::text, created_at FROM operators ORDER BY name`),
  model: () => context.db.models(({ operator }) => operator.findMany({ orderBy: { name: 'asc' } })),
};
for (const [name, ask] of Object.entries(ways)) {
  const begun = performance.now();
  await ask();
  const first = performance.now() - begun;
  const warm = performance.now();
  for (let n = 0; n < TIMES; n += 1) await ask();
  const eachMs = (performance.now() - warm) / TIMES;
  process.stdout.write(`${name}: first ${first.toFixed(1)}, warm ${eachMs.toFixed(3)}\n`);
}
await context.close();
