// Follows the changes, and remembers how far it has come: after a crash, a cut or a restart of the service it goes on there.
import { readFile, rename, writeFile } from 'node:fs/promises';
import { createClient } from 'userdir/client';

const { USERDIR_URL = 'http://127.0.0.1:4000', APP_ID, APP_SECRET, CURSOR_FILE = 'cursor.txt' } = process.env;
const client = createClient({ url: USERDIR_URL, appId: APP_ID, appSecret: APP_SECRET });

await client.changes.follow({
  // Without a file, from the oldest change that is kept.
  after: await readFile(CURSOR_FILE, 'utf8').catch(() => null),

  /** Your work. After a crash it may run again for the last change. */
  async handle({ at, type, userId }) {
    console.log(`${at} ${type} ${userId ?? ''}`);
  },

  async save(cursor) {
    await writeFile(`${CURSOR_FILE}.new`, cursor);
    await rename(`${CURSOR_FILE}.new`, CURSOR_FILE);
  },
});
