import { readFileSync } from 'node:fs';
import {
  buildSchema,
  type GraphQLField,
  type GraphQLInputField,
  type GraphQLSchema,
  isEnumType,
  isInputObjectType,
  isObjectType,
  isSpecifiedScalarType,
} from 'graphql';
import { expect, test } from 'vitest';
import { printedSchema } from '#dist/graphql/schema.js';

const committed = readFileSync(new URL('../../schema.graphql', import.meta.url), 'utf8');

const FIX = `node -e "import('./dist/graphql/schema.js').then((m) => fs.writeFileSync('schema.graphql', m.printedSchema()))"`;

test('schema.graphql equals the printed schema', () => {
  expect(committed, `schema.graphql is stale; after a build run: ${FIX}`).toBe(printedSchema());
});

/** Every name that a client can use, `User.id` or `Query.user(id)`, with its description. */
function* descriptions(schema: GraphQLSchema): Generator<[name: string, description: string | null | undefined]> {
  for (const type of Object.values(schema.getTypeMap())) {
    if (type.name.startsWith('__') || isSpecifiedScalarType(type)) continue;
    yield [type.name, type.description];
    if (isEnumType(type)) for (const value of type.getValues()) yield [`${type.name}.${value.name}`, value.description];
    if (!isInputObjectType(type) && !isObjectType(type)) continue;
    for (const field of Object.values<GraphQLField<unknown, unknown> | GraphQLInputField>(type.getFields())) {
      yield [`${type.name}.${field.name}`, field.description];
      if ('args' in field)
        for (const { name, description } of field.args) yield [`${type.name}.${field.name}(${name})`, description];
    }
  }
}

test('the description of everything in the schema is a sentence', () => {
  const all = [...descriptions(buildSchema(printedSchema()))];
  expect(all.length).toBeGreaterThan(150);
  expect(all.filter(([, description]) => !/^[`A-Z].{8,}\.$/s.test(description ?? ''))).toEqual([]);
});
