// A REST client whose types come from the service (/openapi.json): what they do not allow does not compile. It REMOVES a user.
import createClient from 'openapi-fetch';
import type { paths } from './rest-api.js';

const { USERDIR_URL = 'http://127.0.0.1:4000', APP_ID = '', APP_SECRET = '' } = process.env;
const client = createClient<paths>({
  baseUrl: USERDIR_URL,
  headers: { 'service-app-id': APP_ID, 'service-app-secret': APP_SECRET },
});

/** What was answered, or an error with the code and the words of the service. */
function answered<Data>(answer: {
  data?: Data | undefined;
  error?: { error: string } | undefined;
  response: Response;
}): Data {
  if (answer.data !== undefined) return answer.data;
  throw new Error(`${answer.response.headers.get('userdir-error-code')}: ${answer.error?.error}`);
}

const { total_user, users } = answered(
  await client.GET('/server/users', { params: { query: { limit: 100, login_method: ['email', 'wallet'] } } }),
).result;
const names = users.map(({ auth_value }) => auth_value);
console.log(`${total_user} users, newest: ${names.slice(0, 2).join(' ')}`);

const owner = users.find(({ accounts }) => accounts.length > 0);
const address = owner?.accounts[0]?.public_key;
if (owner === undefined || address === undefined) throw new Error('None of them has an account.');
for (const user_id of [owner.id, owner.id + 1]) {
  const { result } = answered(await client.POST('/server/wallets/verify', { body: { address, user_id } }));
  // A yes says who, a no says nothing else.
  console.log(result.exists ? `owned by ${result.user_id}` : 'not owned');
}

const path = { user_id: owner.id };
// Never made from the user's ID: a repeat gives the old answer, even if the user was restored meanwhile.
const header = { 'Idempotency-Key': crypto.randomUUID() };
console.log(answered(await client.DELETE('/server/users/{user_id}', { params: { path, header } })).message);
const gone = await client.GET('/server/users/{user_id}', { params: { path } });
console.log(gone.error?.error);

for (let after: string | undefined, hasMore = true; hasMore; ) {
  const page = { limit: 100, ...(after !== undefined && { after }) };
  const { result } = answered(await client.GET('/changes', { params: { query: page } }));
  console.log(result.changes.map(({ type }) => type).join(' '));
  after = result.next_cursor;
  hasMore = result.has_more;
}
