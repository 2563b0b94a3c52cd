import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import pg from 'pg';

/** A value of a row. A number is a float8. */
type Value = string | number | boolean | null;
type Row = Readonly<Record<string, Value>>;

export interface ScriptedPostgres extends AsyncDisposable {
  /** Where clients connect. */
  readonly connection: pg.ClientConfig;
  /** The connections that are open. */
  readonly sockets: ReadonlySet<Socket>;
}

/** An error with this SQLSTATE is one of the statement. */
class Refused extends Error {
  constructor(readonly code: string) {
    super(`SQLSTATE ${code}`);
  }
}

export function refuse(code: string): never {
  throw new Refused(code);
}

/**
 * A server that speaks as much of PostgreSQL's protocol as a client needs, and answers each statement from a script: what PostgreSQL says where
 * there is none. It says nothing about what PostgreSQL would say: that is tested with real ones.
 */
export async function scriptPostgres(answer: (sql: string) => Promise<readonly Row[]>): Promise<ScriptedPostgres> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
    serve(socket, answer);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    connection: { host: '127.0.0.1', port, user: 'script', database: 'script', ssl: false },
    sockets,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** The messages of one connection, one after the other. */
function serve(socket: Socket, answer: (sql: string) => Promise<readonly Row[]>): void {
  const prepared = new Map<string, string>();
  let current = '';
  let hasFailed = false;
  let unread: Buffer = Buffer.alloc(0);
  let isStarted = false;
  let work = Promise.resolve();
  const send = (type: string, body: Buffer = Buffer.alloc(0)) => {
    const head = Buffer.alloc(5);
    head.write(type, 0);
    head.writeInt32BE(body.length + 4, 1);
    socket.write(Buffer.concat([head, body]));
  };
  const ready = () => send('Z', Buffer.from('I'));

  async function execute(): Promise<void> {
    try {
      const rows = await answer(current);
      const columns = Object.entries(rows[0] ?? {});
      send('T', Buffer.concat([int16(columns.length), ...columns.map(describe)]));
      for (const row of rows) send('D', Buffer.concat([int16(columns.length), ...Object.values(row).map(valueBytes)]));
      send('C', text(`SELECT ${rows.length}`));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      hasFailed = true;
      send('E', Buffer.concat([text('SERROR'), text(`C${error.code}`), text(`M${error.message}`), Buffer.alloc(1)]));
    }
  }

  async function receive(type: string, body: Buffer): Promise<void> {
    if (type === 'S') {
      hasFailed = false;
      return ready();
    }
    if (hasFailed) return;
    const [first = '', second = ''] = body.toString().split('\0');
    if (type === 'P') {
      prepared.set(first, second);
      send('1');
    } else if (type === 'B') {
      current = prepared.get(second) ?? '';
      send('2');
    } else if (type === 'E') {
      await execute();
    } else if (type === 'Q') {
      current = first;
      await execute();
      hasFailed = false;
      ready();
    } else if (type === 'X') socket.end();
  }

  socket.on('data', (bytes) => {
    unread = Buffer.concat([unread, bytes]);
    for (;;) {
      // The first message has no type.
      const start = isStarted ? 1 : 0;
      if (unread.length < start + 4) return;
      const length = start + unread.readInt32BE(start);
      if (unread.length < length) return;
      const message = unread.subarray(0, length);
      unread = unread.subarray(length);
      if (isStarted) work = work.then(() => receive(message.toString('latin1', 0, 1), message.subarray(5)));
      else {
        isStarted = true;
        send('R', int32(0));
        send('K', Buffer.concat([int32(7), int32(7)]));
        ready();
      }
    }
  });
}

function describe([name, value]: [string, Value]): Buffer {
  const { BOOL, FLOAT8, TEXT } = pg.types.builtins;
  const type = typeof value === 'boolean' ? BOOL : typeof value === 'number' ? FLOAT8 : TEXT;
  return Buffer.concat([text(name), int32(0), int16(0), int32(type), int16(-1), int32(-1), int16(0)]);
}

function valueBytes(value: Value): Buffer {
  if (value === null) return int32(-1);
  const bytes = Buffer.from(typeof value === 'boolean' ? (value ? 't' : 'f') : String(value));
  return Buffer.concat([int32(bytes.length), bytes]);
}

const text = (value: string) => Buffer.from(`${value}\0`);

function int16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeInt16BE(value);
  return bytes;
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}
