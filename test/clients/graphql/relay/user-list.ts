import { graphql } from 'relay-runtime';

/** A list that Relay pages through by itself, which its compiler takes only from a connection that keeps Relay's rules. */
export const list = graphql`
  fragment userList on Query
  @refetchable(queryName: "userListPaginationQuery")
  @argumentDefinitions(first: { type: "Int", defaultValue: 10 }, after: { type: "String" }) {
    users(first: $first, after: $after) @connection(key: "userList_users") {
      edges {
        node {
          id
          authValue
          createdAt
        }
      }
    }
  }
`;
