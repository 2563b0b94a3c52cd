// Keeps a copy of all users without a gap, here as a file for each in a folder. Where yours is a database, write there.
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { createClient } from 'userdir/client';

const { USERDIR_URL = 'http://127.0.0.1:4000', APP_ID, APP_SECRET, COPY = 'users' } = process.env;
const client = createClient({ url: USERDIR_URL, appId: APP_ID, appSecret: APP_SECRET });

await client.changes.copy({
  after: await readFile(`${COPY}/cursor`, 'utf8').catch(() => null),
  async begin() {
    await rm(COPY, { recursive: true, force: true });
    await mkdir(COPY, { recursive: true });
  },
  async put(users) {
    for (const user of users) await writeFile(`${COPY}/${user.id}.json`, JSON.stringify(user));
  },
  async remove(removals) {
    for (const { id } of removals) await rm(`${COPY}/${id}.json`, { force: true });
  },
  async save(cursor) {
    await writeFile(`${COPY}/cursor.new`, cursor);
    await rename(`${COPY}/cursor.new`, `${COPY}/cursor`);
  },
});
