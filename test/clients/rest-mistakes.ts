import type createClient from 'openapi-fetch';
import type { paths } from './rest-api.js';

/** What no client of the OpenAPI document may say; each would compile if its type were loose. */
export async function mistakes(client: ReturnType<typeof createClient<paths>>): Promise<void> {
  // @ts-expect-error There is no such route.
  await client.GET('/server/people');
  // @ts-expect-error A page is a number.
  await client.GET('/server/users', { params: { query: { page: 'first' } } });
  // @ts-expect-error There is no such login method.
  await client.GET('/server/users', { params: { query: { login_method: ['sms'] } } });
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
