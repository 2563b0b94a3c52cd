/* Makes dist/db/empty-database.tgz: an embedded database as initdb leaves it. A first start unpacks it in a fifth of initdb's time in PGlite. */
import { rename, writeFile } from 'node:fs/promises';
import { PGlite } from '@electric-sql/pglite';

const database = await PGlite.create();
const archive = await database.dumpDataDir('gzip');
await database.close();
const file = new URL('../../dist/db/empty-database.tgz', import.meta.url);
// A build that is killed here must not leave a half of it.
const part = new URL('empty-database.part', file);
await writeFile(part, Buffer.from(await archive.arrayBuffer()));
await rename(part, file);
