import pg from 'pg';

const TURNS = 5;

/**
 * Whether two connections get sessions by turns: a pooler of transactions lies between. A lock or a LISTEN of one connection belongs to
 * everyone, and stays behind. A pooler that gives each connection a session of its own does no harm.
 */
export async function sharesSessions(options: pg.ClientConfig): Promise<boolean> {
  return withConnection(options, async (one) => {
    if (await isDirect(one)) return false;
    return withConnection(options, async (other) => {
      const [ofOne, ofOther] = [new Set<number>(), new Set<number>()];
      for (let turn = 0; turn < TURNS; turn += 1) {
        ofOne.add(await sessionOf(one));
        ofOther.add(await sessionOf(other));
      }
      return ofOne.size + ofOther.size !== new Set([...ofOne, ...ofOther]).size || ofOne.size > 1 || ofOther.size > 1;
    });
  });
}

/** Whether no pooler is in between. PostgreSQL itself tells the id of its process when it accepts a connection; poolers tell an invented one. */
export async function isDirect(client: pg.Client): Promise<boolean> {
  return (await sessionOf(client)) === (client as pg.Client & { processID: number }).processID;
}

async function sessionOf(client: pg.Client): Promise<number> {
  const { rows } = await client.query('SELECT pg_backend_pid() AS pid');
  return rows[0].pid;
}

/** Runs `work` on a connection of its own. */
async function withConnection<Result>(
  options: pg.ClientConfig,
  work: (client: pg.Client) => Promise<Result>,
): Promise<Result> {
  const client = new pg.Client(options);
  // The statement that waits reports a broken connection. Without a listener the process would end.
  client.on('error', () => undefined);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end().catch(() => undefined);
  }
}
