// Follows the changes by a GraphQL subscription, each as it comes, and remembers how far it has come. `npm i graphql graphql-sse`
import { readFile, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient, NetworkError } from 'graphql-sse';

const { USERDIR_URL = 'http://127.0.0.1:4000', APP_ID, APP_SECRET, CURSOR_FILE = 'cursor.txt' } = process.env;
const url = `${USERDIR_URL}/graphql`;
const headers = { 'service-app-id': APP_ID, 'service-app-secret': APP_SECRET };
// Its own retries would repeat the first cursor.
const client = createClient({ url, headers, retryAttempts: 0 });
const query = `subscription ($after: String!) {
  changes(after: $after) { cursor change { at type user { email } } }
}`;

/** Your work. A change may come twice, because the cursor is written after it. `user` is null if they are removed. */
async function handle({ at, type, user }) {
  console.log(`${at} ${type} ${user?.email ?? ''}`);
}

/** The seconds until the next attempt. Throws what it cannot help, such as CURSOR_EXPIRED: then read all users again. */
function secondsAfter(failure) {
  const { status = 503, headers } = failure.response ?? {};
  const isPassing = failure instanceof NetworkError && (status >= 500 || status === 408 || status === 429);
  const seconds = failure.extensions?.retryAfter ?? (isPassing ? (headers?.get('retry-after') ?? 1) : null);
  if (seconds === null) throw failure;
  return Number(seconds);
}

let cursor = await readFile(CURSOR_FILE, 'utf8').catch(() => 'now');
for (;;) {
  try {
    for await (const { data, errors } of client.iterate({ query, variables: { after: cursor } })) {
      const [error] = errors ?? [];
      const tooLarge = error?.extensions.cursor;
      if (error && !tooLarge) throw Object.assign(new Error(error.message), error);
      // Of a change that is too large to be sent with its user, you read the user here.
      if (tooLarge) console.error(`${tooLarge}: ${error.message}`);
      // The first event, and some others, have only a cursor.
      else if (data.changes.change) await handle(data.changes.change);
      cursor = tooLarge ?? data.changes.cursor;
      await writeFile(CURSOR_FILE, cursor);
    }
  } catch (failure) {
    const seconds = secondsAfter(failure);
    console.error(`${failure.message} Again in ${seconds} s.`);
    await sleep(1_000 * seconds);
  }
}
