import { GraphQLClient } from 'graphql-request';
import { RecordLoginDocument, SearchUsersDocument, UsersDocument } from './generated/operations.js';

// Each of these must not compile, and the test says how: one statement, one error.
const client = new GraphQLClient('');
export const field = (await client.request(UsersDocument, {})).users.edges.map(({ node }) => node.email);
export const variable = client.request(UsersDocument, { limit: 10 });
export const value = client.request(UsersDocument, { filter: { loginMethods: ['email'] } });
export const twoOfOne = client.request(SearchUsersDocument, { by: { email: 'a@example.com', address: '0x' } });
export const missing = client.request(RecordLoginDocument, { input: { authMethod: 'email' } });
