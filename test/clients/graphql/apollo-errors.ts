import { ApolloClient, CombinedGraphQLErrors, HttpLink, InMemoryCache } from '@apollo/client';
import { UsersDocument, type UsersQueryVariables } from './generated/operations.js';
import { headers, report, url } from './service.js';

/** An application that looks at the code of what fails: a field, and requests that are refused as a whole. */
async function codeOf(variables: UsersQueryVariables, more: Record<string, string> = {}): Promise<unknown> {
  const link = new HttpLink({ uri: url, headers: { ...headers, ...more } });
  const client = new ApolloClient({ link, cache: new InMemoryCache() });
  try {
    return (await client.query({ query: UsersDocument, variables })).data;
  } catch (error) {
    return CombinedGraphQLErrors.is(error) ? error.errors[0]?.extensions?.['code'] : String(error);
  } finally {
    client.stop();
  }
}

report({
  tooMany: await codeOf({ first: 101 }),
  stranger: await codeOf({}, { 'service-app-secret': 'wrong' }),
  onlyGraphQL: await codeOf({}, { 'service-app-secret': 'wrong', accept: 'application/graphql-response+json' }),
  tooLarge: await codeOf({ after: 'x'.repeat(300_000) }),
});
