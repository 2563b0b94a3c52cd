import graphql from '@graphql-eslint/eslint-plugin';

const { parser, configs } = graphql;
const common = {
  languageOptions: {
    parser,
    parserOptions: { graphQLConfig: { schema: '../../../schema.graphql', documents: 'operations.graphql' } },
  },
  plugins: { '@graphql-eslint': graphql },
};

/** Every rule that there is for a schema, but for these. */
const EXCEPTIONS = {
  // The printed schema is sorted; this rule would have `id` first and `createdAt` last.
  '@graphql-eslint/alphabetize': 'off',
  // `deleteUser` takes plain arguments, which clients rely on; an idempotency key is no part of what is asked.
  '@graphql-eslint/input-name': 'off',
  // It is for schemas that only read.
  '@graphql-eslint/no-root-type': 'off',
  // The feed of changes is read forwards only.
  '@graphql-eslint/relay-arguments': ['error', { includeBoth: false }],
  // Edges are of users, who are fetched by `user(id:)`: there is no second kind of thing that a `Node` could be. Lists that
  // never have more than a page's worth (`accounts`, `searchUsers`) need no cursors.
  '@graphql-eslint/relay-edge-types': [
    'error',
    { withEdgeSuffix: true, shouldImplementNode: false, listTypeCanWrapOnlyEdgeType: false },
  ],
  // Backends have no screen to refresh in the same request.
  '@graphql-eslint/require-field-of-type-query-in-mutation-result': 'off',
  // Clients rely on which fields are null: `user` is, for an unknown ID; a failure of the others leaves no `data`.
  '@graphql-eslint/require-nullable-result-in-root': 'off',
  // These are answers, and no things that a cache could hold by their ID.
  '@graphql-eslint/strict-id-in-types': [
    'error',
    {
      exceptions: {
        types:
          `AddressReport Ban Caller ChangeEvent Identity PageInfo UserPage UsersByPrefix WalletVerdict WalletVerification
          WebhookAttempt`.split(/\s+/),
        suffixes: ['Payload', 'Connection', 'Edge'],
      },
    },
  ],
};

export default [
  {
    ...common,
    files: ['schema.graphql'],
    rules: { ...configs['flat/schema-all'].rules, ...configs['flat/schema-relay'].rules, ...EXCEPTIONS },
  },
  { ...common, files: ['operations.graphql'], rules: configs['flat/operations-recommended'].rules },
];
