import { createHash } from 'node:crypto';
import { ApolloClient, HttpLink, InMemoryCache } from '@apollo/client';
import { PersistedQueryLink } from '@apollo/client/link/persisted-queries';
import { UsersDocument } from './generated/operations.js';
import { headers, report, url } from './service.js';

/** An application with automatic persisted queries: it sends the text of a query once, and its hash from then on. */
const sent: string[] = [];
const countingFetch: typeof fetch = (input, init) => {
  const text = `${input}${init?.body ?? ''}`;
  sent.push(`${init?.method} ${/"query":|[?&]query=/.test(text) ? 'text' : 'hash'}`);
  return fetch(input, init);
};

async function ask(): Promise<(string | undefined)[]> {
  const persisted = new PersistedQueryLink({
    sha256: (text) => createHash('sha256').update(text).digest('hex'),
    useGETForHashedQueries: true,
  });
  const http = new HttpLink({ uri: url, headers, fetch: countingFetch });
  const client = new ApolloClient({ link: persisted.concat(http), cache: new InMemoryCache() });
  const { data } = await client.query({ query: UsersDocument, variables: { first: 2 } });
  client.stop();
  return data?.users.edges.map(({ node }) => node.authValue) ?? [];
}

report({ users: [await ask(), await ask()], sent });
