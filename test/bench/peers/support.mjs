import pg from 'pg';

/** What the two hand-written peers share: sessions of PostgreSQL, statements and transactions, and the way to say that they are ready. */

// The fastest way to an id that JSON can hold; the driver's own is a string.
pg.types.setTypeParser(pg.types.builtins.INT8, Number);

/** The project whose users are served. The peers check no credentials. */
export const projectId = Number(process.env['PROJECT_ID']);

const connections = Number(process.env['DATABASE_POOL_SIZE']);
const session = {
  connectionString: process.env['DATABASE_URL'],
  // A LIMIT that is a parameter looks dear to a plan for any value, so that PostgreSQL would plan each list anew.
  options: '-c plan_cache_mode=force_generic_plan',
};

const isPipelined = process.env['PIPELINE'] === 'on';
const pool = new pg.Pool({
  ...session,
  max: connections,
  min: isPipelined ? 0 : connections,
  idleTimeoutMillis: 0,
  pipeline: isPipelined,
});

/**
 * Runs named prepared statements. By default over the driver's pool, as nearly everybody does; with PIPELINE=on over as many
 * sessions in turn, each of which takes the next statement before it has answered the last (pg 8.23, opt-in).
 */
async function openSessions() {
  if (!isPipelined) return (statement) => pool.query(statement);
  const clients = Array.from({ length: connections }, () => new pg.Client({ ...session, pipeline: true }));
  await Promise.all(clients.map((client) => client.connect()));
  let turn = 0;
  return (statement) => {
    turn = (turn + 1) % clients.length;
    return clients[turn].query(statement);
  };
}

const query = await openSessions();

/** With ASK=once, the first answer to a statement is that to all later ones, whatever they ask. */
const asksOnce = process.env['ASK'] === 'once';
const kept = new Map();

/** The rows of a statement that is prepared once a session, under this name. */
export async function rowsOf(name, text, values) {
  if (!asksOnce) return (await query({ name, text, values })).rows;
  if (!kept.has(name)) kept.set(name, (await query({ name, text, values })).rows);
  return kept.get(name);
}

/** Runs `work`, which gets a `rowsOf` of the transaction, and commits; undone if it throws. A session that pipelines sends BEGIN with what follows it. */
export async function transaction(work) {
  const client = await pool.connect();
  try {
    const begun = client.query('BEGIN');
    if (!isPipelined) await begun;
    const result = await work(async (name, text, values) => (await client.query({ name, text, values })).rows);
    await client.query('COMMIT');
    return result;
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  } finally {
    client.release();
  }
}

export async function listen(app) {
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  process.stdout.write(`${JSON.stringify({ url })}\n`);
}
