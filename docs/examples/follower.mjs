// Follows the changes by pages, and remembers how far it has come: after a crash it goes on there. Needs no package.
import { readFile, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

const {
  USERDIR_URL = 'http://127.0.0.1:4000',
  APP_ID,
  APP_SECRET,
  CURSOR_FILE = 'cursor.txt',
  PAUSE_MS = '5000',
} = process.env;
const headers = { 'service-app-id': APP_ID, 'service-app-secret': APP_SECRET, accept: 'application/json' };

/** Your work. A change may come twice, because the cursor is written after it. */
async function handle({ type, user_id, at }) {
  console.log(`${at} ${type} ${user_id ?? ''}`);
}

/** An empty page, after a pause. */
async function pause(reason, seconds, cursor) {
  console.error(`${reason} Again in ${seconds} s.`);
  await sleep(1_000 * seconds);
  return { changes: [], next_cursor: cursor, has_more: true };
}

/** A page after a cursor; without one, from the oldest change that is kept. Null once the cursor has expired. */
async function readPage(cursor) {
  const after = cursor === '' ? '' : `&after=${cursor}`;
  const response = await fetch(`${USERDIR_URL}/changes?limit=100${after}`, { headers }).catch(() => null);
  if (response === null) return pause('The service cannot be reached.', 1, cursor);
  if (response.ok) return (await response.json()).result;
  const { error } = await response.json();
  if (response.headers.get('userdir-error-code') === 'CURSOR_EXPIRED') return null;
  const seconds = Number(response.headers.get('retry-after'));
  if (!seconds) throw new Error(error);
  return pause(error, seconds, cursor);
}

let cursor = await readFile(CURSOR_FILE, 'utf8').catch(() => '');
for (;;) {
  const page = await readPage(cursor);
  if (page === null) throw new Error(`The cursor has expired: read all users again, then remove ${CURSOR_FILE}.`);
  for (const change of page.changes) await handle(change);
  cursor = page.next_cursor;
  await writeFile(CURSOR_FILE, cursor);
  if (!page.has_more) await sleep(Number(PAUSE_MS));
}
