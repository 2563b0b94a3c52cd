import { createRequire } from 'node:module';
import fc from 'fast-check';
import type { FieldNode, GraphQLObjectType, OperationDefinitionNode } from 'graphql';
import { expect, test } from 'vitest';
import { MAX_ERRORS } from '#dist/engine/limits.js';
import { argumentsReader, variablesReader } from '#dist/engine/nodes.js';
import { schema } from '#dist/graphql/schema.js';

// Not by `import`, by which Vitest would load a second copy.
const { getArgumentValues, getVariableValues, parse }: typeof import('graphql') = createRequire(import.meta.url)(
  'graphql',
);

/** Variables and arguments are read as GraphQL.js reads them, whatever their types and values are. */

const TYPES = 'ID ID! String String! Int Int! Boolean DateTime Network LoginMethod! [ID!]'.split(' ');
const DEFAULTS: Record<string, string> = { ID: '"7"', String: '"a"', Int: '3', Network: 'STELLAR', '[ID!]': '["1"]' };
const value = fc.oneof(
  fc.constantFrom(null, true, 'STELLAR', 'ETHEREUM', 'EMAIL', '2026-01-31T12:00:00Z', 'constructor', 2 ** 31, -0),
  fc.integer(),
  fc.double(),
  fc.string(),
  fc.array(fc.string(), { maxLength: 2 }),
  fc.dictionary(fc.string(), fc.integer(), { maxKeys: 2 }),
);
/** Some are properties of every object. */
const NAMES = ['id', 'constructor', 'toString', 'a', '_b'];
const variable = fc.record({ type: fc.constantFrom(...TYPES), hasDefault: fc.boolean() });

const operationOf = (text: string) => parse(text).definitions[0] as OperationDefinitionNode;
const plain = ({ coerced, errors }: { coerced?: unknown; errors?: readonly { message: string }[] }) => ({
  coerced,
  errors: errors?.map(({ message }) => message),
});

test('variables have the values and the errors of GraphQL.js', () => {
  fc.assert(
    fc.property(
      fc.array(variable, { minLength: 1, maxLength: NAMES.length }),
      fc.dictionary(fc.constantFrom(...NAMES, 'unknown'), value),
      (variables, given) => {
        const definitions = variables.map(({ type, hasDefault }, index) => {
          const otherwise = hasDefault ? DEFAULTS[type] : undefined;
          return `$${NAMES[index]}: ${type}${otherwise === undefined ? '' : ` = ${otherwise}`}`;
        });
        const { variableDefinitions = [] } = operationOf(`query (${definitions.join(', ')}) { __typename }`);
        const expected = getVariableValues(schema, variableDefinitions, given, { maxErrors: MAX_ERRORS });
        expect(plain(variablesReader(schema, variableDefinitions)(given))).toEqual(plain(expected));
      },
    ),
    { numRuns: 2_000 },
  );
});

const FIELDS = [
  'user(id: $id)',
  'user(id: "7")',
  'users(first: $first, after: $after)',
  'users(first: 2, after: $after)',
  'users(first: null, after: "text")',
  'users(first: 2147483648)',
  'users(first: 2, filter: { banned: true })',
  'users(first: 2, filter: null)',
  'user(id: 7)',
  'userPage(page: 2, limit: $first)',
  'users',
];

test('arguments have the values of GraphQL.js', () => {
  const given = fc.record(
    { id: fc.constantFrom('7', null), first: fc.constantFrom(5, null), after: fc.constantFrom('text', null) },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(fc.constantFrom(...FIELDS), given, (text, variables) => {
      const node = operationOf(`query ($id: ID!, $first: Int, $after: String) { ${text} { __typename } }`).selectionSet
        .selections[0] as FieldNode;
      const field = (schema.getQueryType() as GraphQLObjectType).getFields()[node.name.value];
      if (field === undefined) throw new Error(`There is no field ${node.name.value}.`);
      const outcome = (read: () => unknown) => {
        try {
          return read();
        } catch (error) {
          return (error as Error).message;
        }
      };
      expect(outcome(() => argumentsReader(field, node)(variables))).toEqual(
        outcome(() => getArgumentValues(field, node, variables)),
      );
    }),
  );
});
