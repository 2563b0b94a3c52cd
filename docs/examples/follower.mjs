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
const headers = { 'service-app-id': APP_ID, 'service-app-secret': APP_SECRET };

/** Your work. A change may come twice, because the cursor is written after it. */
async function handle({ type, user_id, at }) {
  console.log(`${at} ${type} ${user_id ?? ''}`);
}

/** A page after a cursor; without one, from the oldest change that is kept. Null once the cursor has expired. */
async function readPage(cursor) {
  const after = cursor === '' ? '' : `&after=${cursor}`;
  const response = await fetch(`${USERDIR_URL}/changes?limit=100${after}`, { headers }).catch(() => null);
  // A proxy may answer with HTML, and the connection may break before the end.
  const body = await response?.json().catch(() => null);
  if (response?.ok && body?.result) return body.result;
  if (response?.headers.get('userdir-error-code') === 'CURSOR_EXPIRED') return null;
  const wait = response?.headers.get('retry-after');
  const isOver = response?.status >= 400 && response.status < 500 && response.status !== 408 && !wait;
  if (isOver) throw new Error(body?.error ?? `Status ${response.status}.`);
  console.error(body?.error ?? `The service cannot be reached (${response?.status ?? 'no answer'}).`);
  await sleep(1_000 * Number(wait) || Number(PAUSE_MS));
  return { changes: [], next_cursor: cursor, has_more: true };
}

let cursor = await readFile(CURSOR_FILE, 'utf8').catch(() => '');
for (;;) {
  const page = await readPage(cursor);
  if (page === null)
    throw new Error(`The cursor has expired: take a new one, write it into ${CURSOR_FILE}, and read all users again.`);
  for (const change of page.changes) await handle(change);
  cursor = page.next_cursor;
  await writeFile(CURSOR_FILE, cursor);
  if (!page.has_more) await sleep(Number(PAUSE_MS));
}
