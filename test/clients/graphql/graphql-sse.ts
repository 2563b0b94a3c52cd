import { type Client, createClient } from 'graphql-sse';
import { headers, report, url } from './service.js';

/** A backend that follows the feed of changes, in distinct connections mode: it resumes after what it has handled. */
interface Changes {
  readonly changes: {
    readonly cursor: string;
    readonly change: { readonly type: string; readonly user: { readonly authValue: string } | null } | null;
  };
}
const FOLLOW = 'subscription ($after: String) { changes(after: $after) { cursor change { type user { authValue } } } }';

async function register(authValue: string): Promise<void> {
  const query = 'mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { created } }';
  const body = JSON.stringify({ query, variables: { input: { authMethod: 'email', authValue } } });
  await fetch(url, { method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body });
}

/** Follows until `count` events have come, then ends the subscription. The first only tells the cursor. */
async function follow(client: Client, after: string | null, count: number) {
  const seen: Changes['changes'][] = [];
  for await (const { data, errors } of client.iterate<Changes>({ query: FOLLOW, variables: { after } })) {
    if (!data) throw new Error(JSON.stringify(errors));
    seen.push(data.changes);
    if (seen.length === count) break;
  }
  return seen;
}

const client = createClient({ url, headers, retryAttempts: 0 });
const [start] = await follow(client, null, 1);
await register('first@example.com');
await register('second@example.com');
const [, first, second] = await follow(client, start?.cursor ?? null, 3);
const [, resumed] = await follow(client, first?.cursor ?? null, 2);

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
  followed: [first, second].map((event) => [event?.change?.type, event?.change?.user?.authValue]),
  resumed: resumed?.change?.user?.authValue,
  refusals,
});
