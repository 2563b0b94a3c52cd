import { ApolloClient, HttpLink, InMemoryCache } from '@apollo/client';
import { relayStylePagination } from '@apollo/client/utilities';
import { filter, firstValueFrom } from 'rxjs';
import { RecordLoginDocument, UsersDocument } from './generated/operations.js';
import { headers, report, url } from './service.js';

/** An application whose cache holds one growing list of users, paged from both ends, and each user once. */
const cache = new InMemoryCache({
  typePolicies: { Query: { fields: { users: relayStylePagination(['filter']) } } },
});
const client = new ApolloClient({ link: new HttpLink({ uri: url, headers }), cache });

const variables = { first: 10 };
const list = client.watchQuery({ query: UsersDocument, variables });
const subscription = list.subscribe(() => undefined);
await firstValueFrom(list.pipe(filter(({ dataState }) => dataState === 'complete')));

function cached() {
  const users = cache.readQuery({ query: UsersDocument, variables })?.users;
  if (users === undefined) throw new Error('The list is not in the cache.');
  return users;
}

const sizes = [cached().edges.length];
while (cached().pageInfo.hasNextPage) {
  await list.fetchMore({ variables: { after: cached().pageInfo.endCursor } });
  sizes.push(cached().edges.length);
}
const walked = cached().edges.map(({ node }) => node.authValue);

// A user registers, whom the next page towards newer users has.
await client.mutate({
  mutation: RecordLoginDocument,
  variables: { input: { authMethod: 'email', authValue: 'newest@example.com' } },
});
await list.fetchMore({ variables: { first: null, last: 10, before: cached().pageInfo.startCursor } });

// A login is seen in the list without asking for it again, because a user is one object by its id.
await client.mutate({
  mutation: RecordLoginDocument,
  variables: { input: { authMethod: 'email', authValue: walked.at(-1) ?? '' } },
});

const { data } = list.getCurrentResult();
const watched = data?.users?.edges?.map((edge) => edge?.node?.authValue);
const last = cached().edges.at(-1)?.node;
subscription.unsubscribe();
client.stop();
report({
  sizes,
  walked,
  watched,
  totalCount: cached().totalCount,
  loginCount: last?.loginCount,
  cursors: new Set(cached().edges.map(({ cursor }) => cursor)).size,
});
