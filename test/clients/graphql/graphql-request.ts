import { ClientError, GraphQLClient } from 'graphql-request';
import {
  DeleteUserDocument,
  RecordLoginDocument,
  SearchUsersDocument,
  UserDocument,
  UsersDocument,
  type UsersQueryVariables,
  VerifyWalletDocument,
} from './generated/operations.js';
import { headers, report, url } from './service.js';

/** A backend: it walks through all users, registers one, finds, verifies and removes them, and hears a refusal. */
const client = new GraphQLClient(url, { headers });

async function* eachUser(filter: NonNullable<UsersQueryVariables['filter']>) {
  let after: string | null = null;
  do {
    const { users }: Awaited<ReturnType<typeof page>> = await page({ filter, first: 10, after });
    for (const { node } of users.edges) yield node;
    after = users.pageInfo.hasNextPage ? users.pageInfo.endCursor : null;
  } while (after !== null);
}

function page(variables: UsersQueryVariables) {
  return client.request(UsersDocument, variables);
}

async function codeOf(promise: Promise<unknown>): Promise<unknown> {
  try {
    return await promise;
  } catch (error) {
    if (!(error instanceof ClientError)) throw error;
    return [error.response.status, error.response.errors?.[0]?.extensions['code']];
  }
}

const walked: string[] = [];
for await (const user of eachUser({ loginMethods: ['EMAIL'] })) walked.push(user.authValue);

const publicKey = '0x52908400098527886E0F7030069857D2E4169EE7';
const { recordLogin } = await client.request(RecordLoginDocument, {
  input: {
    authMethod: 'google',
    authValue: '1234',
    email: 'grace@example.com',
    accounts: [{ network: 'ETHEREUM', publicKey }],
  },
});
const { id } = recordLogin.user;
const found = await client.request(SearchUsersDocument, { by: { email: 'Grace@Example.com' } });
const { verifyWallet } = await client.request(VerifyWalletDocument, { address: publicKey.toLowerCase(), userId: id });
const removed = await client.request(DeleteUserDocument, { id });
const gone = await client.request(UserDocument, { id });

report({
  walked,
  registered: recordLogin.created,
  loginMethod: recordLogin.user.loginMethod,
  found: found.searchUsers.map((user) => user.id === id),
  verified: verifyWallet,
  removed: removed.deleteUser.id === id,
  gone: gone.user,
  removedAgain: await codeOf(client.request(DeleteUserDocument, { id })),
  tooMany: await codeOf(page({ first: 101 })),
  stranger: await codeOf(new GraphQLClient(url).request(UsersDocument, {})),
});
