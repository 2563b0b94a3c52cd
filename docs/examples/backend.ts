// A backend: records a login and verifies the user's wallet. `npm i graphql graphql-request @graphql-typed-document-node/core`
// Its types come from the schema: `npx graphql-codegen` with the codegen.ts of docs/graphql.md, and `documents: 'backend.ts'`.
import { ClientError, GraphQLClient, gql } from 'graphql-request';
import type * as types from './generated.js';

const { USERDIR_URL = 'http://127.0.0.1:4000', APP_ID = '', APP_SECRET = '' } = process.env;
const client = new GraphQLClient(`${USERDIR_URL}/graphql`, {
  headers: { 'service-app-id': APP_ID, 'service-app-secret': APP_SECRET },
});

const RECORD_LOGIN = gql`
  mutation RecordLogin($input: RecordLoginInput!, $key: String) {
    recordLogin(input: $input, idempotencyKey: $key) {
      created
      user {
        id
        loginCount
      }
    }
  }
`;
const VERIFY = gql`
  query Verify($address: String!, $userId: ID!) {
    verifyWallet(address: $address, userId: $userId) {
      exists
      walletType
    }
  }
`;

/**
 * To be called once you know who logs in: after the password, the passkey or the answer of the provider is checked. Make a `key` for
 * each login, and keep it until the login is answered: with the same key, a retry is not counted again.
 */
async function recordLogin(input: types.RecordLoginMutationVariables['input'], key: string) {
  const variables: types.RecordLoginMutationVariables = { input, key };
  return (await client.request<types.RecordLoginMutation>(RECORD_LOGIN, variables)).recordLogin;
}

async function ownsWallet(variables: types.VerifyQueryVariables): Promise<boolean> {
  return (await client.request<types.VerifyQuery>(VERIFY, variables)).verifyWallet.exists;
}

const address = '0x52908400098527886E0F7030069857D2E4169EE7';
const accounts = [{ network: 'ETHEREUM' as const, publicKey: address }];
const login = { authMethod: 'email', authValue: 'ada@example.com', accounts };
const { created, user } = await recordLogin(login, crypto.randomUUID());
console.log(`user ${user.id}: ${created ? 'registered' : `login ${user.loginCount}`}`);
console.log(`owns the wallet: ${await ownsWallet({ address, userId: user.id })}`);
try {
  await recordLogin({ authMethod: 'email', authValue: 'no address' }, crypto.randomUUID());
} catch (error) {
  const [first] = error instanceof ClientError ? (error.response.errors ?? []) : [];
  console.log(`refused: ${first?.extensions['code']} of ${first?.extensions['argument']}`);
}
