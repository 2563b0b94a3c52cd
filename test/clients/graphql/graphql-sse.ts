import { type Client, createClient } from 'graphql-sse';
import { headers, report, url } from './service.js';

/** A backend that follows the feed of changes, in distinct connections mode: it resumes after what it has handled. */
interface Changes {
  readonly changes: {
    readonly id: string;
    readonly type: string;
    readonly user: { readonly authValue: string } | null;
  };
}
const FOLLOW = 'subscription ($after: String) { changes(after: $after) { id type user { authValue } } }';

async function register(authValue: string): Promise<void> {
  const query = 'mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { created } }';
  const body = JSON.stringify({ query, variables: { input: { authMethod: 'email', authValue } } });
  await fetch(url, { method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body });
}

/** Follows until `count` changes have come, then ends the subscription. */
async function follow(client: Client, after: string | null, count: number, onOpen = async () => {}) {
  const seen: Changes['changes'][] = [];
  const changes = client.iterate<Changes>({ query: FOLLOW, variables: { after } });
  const opened = onOpen();
  for await (const { data, errors } of changes) {
    if (!data) throw new Error(JSON.stringify(errors));
    seen.push(data.changes);
    if (seen.length === count) break;
  }
  await opened;
  return seen;
}

let connected: () => void = () => undefined;
const isConnected = new Promise<void>((resolve) => {
  connected = resolve;
});
const client = createClient({ url, headers, retryAttempts: 0, on: { connected: () => connected() } });
const [first, second] = await follow(client, null, 2, async () => {
  await isConnected;
  await register('first@example.com');
  await register('second@example.com');
});
const resumed = await follow(client, first?.id ?? null, 1);

const refusals: unknown[] = [];
for (const [name, credentials] of [
  ['cursor', headers],
  ['secret', { ...headers, 'service-app-secret': 'wrong' }],
] as const) {
  const other = createClient({ url, headers: credentials, retryAttempts: 0 });
  try {
    for await (const result of other.iterate({ query: FOLLOW, variables: { after: name === 'cursor' ? 'x' : null } })) {
      refusals.push(result.errors?.[0]?.extensions?.['code']);
    }
  } catch (error) {
    refusals.push((error as { response?: Response }).response?.status ?? String(error));
  }
  other.dispose();
}
client.dispose();

report({
  followed: [first, second].map((change) => [change?.type, change?.user?.authValue]),
  resumed: resumed.map(({ user }) => user?.authValue),
  refusals,
});
