import createClient from 'openapi-fetch';
import type { components, paths } from './rest-api.js';

/** A backend that was written against the types of the OpenAPI document: what they get wrong does not compile. */

type Client = ReturnType<typeof createClient<paths, 'application/json'>>;
type User = components['schemas']['User'];

export interface Visit {
  readonly total: number;
  readonly newest: User[];
  readonly one: User;
  readonly owner: number | null;
  readonly stranger: boolean;
  readonly removal: string;
  /** The types of the changes, on pages of two. */
  readonly changes: string[];
  /** The error of whom is no longer there, and of a page that cannot be. */
  readonly failures: readonly [string, string];
}

export async function visit(baseUrl: string, appId: string, appSecret: string): Promise<Visit> {
  const client = createClient<paths, 'application/json'>({
    baseUrl,
    headers: { 'service-app-id': appId, 'service-app-secret': appSecret, accept: 'application/json' },
  });
  const list = await client.GET('/server/users', {
    params: { query: { limit: 2, login_method: ['email', 'wallet'] } },
  });
  const count = await client.GET('/server/users/count', { params: { query: { start_date: '2026-01-01' } } });
  const newest = given(list.data).result.users;
  const [first] = newest;
  const address = first?.accounts[0]?.public_key;
  if (first === undefined || address === undefined) throw new Error('There is nobody to ask about.');

  const path = { user_id: first.id };
  const one = await client.GET('/server/users/{user_id}', { params: { path } });
  const found = await client.GET('/server/users/search', { params: { query: { address } } });
  const verified = given((await client.POST('/server/wallets/verify', { body: { address, user_id: first.id } })).data);
  // A yes says who, a no says nothing else.
  const owner = verified.result.exists ? verified.result.user_id : null;
  const stranger = given(
    (await client.POST('/server/wallets/verify', { body: { address, user_id: first.id + 1 } })).data,
  );
  const removed = await client.DELETE('/server/users/{user_id}', {
    params: { path, header: { 'idempotency-key': `remove-${first.id}` } },
  });
  const changes = await listChanges(client);
  const gone = await client.GET('/server/users/{user_id}', { params: { path } });
  const refused = await client.GET('/server/users', { params: { query: { limit: 1_000 } } });

  if (given(found.data).result.total_user !== 1) throw new Error('The address is not found.');
  return {
    total: given(count.data).result.total_user,
    newest,
    one: given(one.data).result,
    owner,
    stranger: stranger.result.exists,
    removal: given(removed.data).message,
    changes,
    failures: [given(gone.error).error, given(refused.error).error],
  };
}

async function listChanges(client: Client): Promise<string[]> {
  const types: string[] = [];
  for (let after: string | undefined, hasMore = true; hasMore; ) {
    const query = { limit: 2, ...(after !== undefined && { after }) };
    const { result } = given((await client.GET('/changes', { params: { query } })).data);
    types.push(...result.changes.map(({ type }) => type));
    after = result.next_cursor;
    hasMore = result.has_more;
  }
  return types;
}

function given<Value>(value: Value | undefined): Value {
  if (value === undefined) throw new Error('The answer has not what it should have.');
  return value;
}

/** What no such client may say; each would compile if its type were loose. */
export async function mistakes(client: Client): Promise<void> {
  // @ts-expect-error There is no such route.
  await client.GET('/server/people');
  // @ts-expect-error A page is a number.
  await client.GET('/server/users', { params: { query: { page: 'first' } } });
  // @ts-expect-error An address is required.
  await client.POST('/server/wallets/verify', { body: { user_id: 1 } });
  // @ts-expect-error A user is named by an id.
  await client.DELETE('/server/users/{user_id}', { params: {} });
  const { data } = await client.GET('/server/users/{user_id}', { params: { path: { user_id: 1 } } });
  // @ts-expect-error A user has no such field.
  data?.result.email;
  const page = await client.GET('/changes');
  // @ts-expect-error A page is an object, and not a change.
  page.data?.type;
  // @ts-expect-error There may be no wallet.
  data?.result.wallet.length;
}
