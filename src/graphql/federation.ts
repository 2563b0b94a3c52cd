import type { DirectiveList } from '@pothos/plugin-directives';
import { GraphQLObjectType, GraphQLSchema, lexicographicSortSchema, printSchema } from 'graphql';
import { MAX_IDS } from '../domain/bounds.js';
import { readEach } from '../domain/pages.js';
import { parseEachId } from '../domain/parse.js';
import type { User } from '../domain/users.js';
import { costs } from '../engine/cost.js';
import { selects } from '../engine/nodes.js';
import { type AppError, badInput } from '../errors.js';
import { builder, SURCHARGES } from './builder.js';
import { userType } from './users.js';

/* Makes the schema a subgraph of Apollo Federation 2: `_service` tells the schema, `_entities` finds users that other subgraphs name. */

/** The oldest version that has these directives, so that every gateway of Federation 2 knows it. */
const LINK = 'extend schema @link(url: "https://specs.apollo.dev/federation/v2.0", import: ["@key", "@shareable"])\n\n';
/** Apollo's composition does not know it by itself, and printSchema omits the directives that GraphQL.js knows. */
const ONE_OF = 'directive @oneOf on INPUT_OBJECT\n\n';

builder.scalarType('_Any', {
  description: 'The representation of an entity by a gateway: `__typename` and the fields of its key.',
  parseValue: (representation) => representation,
  serialize: () => {
    throw new Error('A representation is in no answer.');
  },
});

/** With a single member: engine/cost.ts, nodes.ts and compiled.ts take it for that. */
const entityType = builder.unionType('_Entity', {
  description: 'An entity that other subgraphs can refer to.',
  types: [userType],
  resolveType: () => userType,
});

const serviceType = builder.objectRef<{ sdl: string }>('_Service').implement({
  description: 'This subgraph, for those who compose a supergraph.',
  fields: (t) => ({
    sdl: t.exposeString('sdl', {
      description: 'The schema with the directives of Federation 2.',
      extensions: costs({ surcharge: SURCHARGES.sdl }),
    }),
  }),
});

builder.queryFields((t) => ({
  _service: t.field({
    type: serviceType,
    description: 'This subgraph, for those who compose a supergraph.',
    resolve: (_root, _args, _context, { schema }) => ({ sdl: printSubgraph(schema) }),
  }),
  _entities: t.field({
    type: [entityType],
    nullable: { list: false, items: true },
    description:
      'Users by their representations, for a gateway, in the order of `representations`, with null in the place of each whom the project does not have.',
    args: {
      representations: t.arg({
        type: ['_Any'],
        required: true,
        description: `Objects with \`__typename\` "User" and \`id\`, at most ${MAX_IDS}. Other keys are ignored.`,
      }),
    },
    extensions: costs({
      surcharge: SURCHARGES.search,
      rows: { of: ['representations'], otherwise: 0, atMost: MAX_IDS },
      items: { of: ['representations'], each: SURCHARGES.id },
    }),
    resolve: (_root, { representations }, { scope, services }, info) => {
      const parts = { withAccounts: selects(info, 'User.accounts') };
      const read = (id: bigint | AppError) => (typeof id === 'bigint' ? services.users.findUser(scope, id, parts) : id);
      // GraphQL.js answers an error in a list as the error of its item. Pothos does not know that.
      return Promise.all(readEach('representations', representations, readId).map(read)) as Promise<(User | null)[]>;
    },
  }),
}));

/** The id of a represented user; an error in its place does not keep the others from their answer. */
function readId(name: string, representation: unknown): bigint | AppError {
  if (typeof representation !== 'object' || representation === null || Array.isArray(representation))
    return badInput(name, representation, 'an object with __typename and id');
  const { __typename: type, id } = representation as Record<string, unknown>;
  if (type !== userType.name) return badInput(`${name}.__typename`, type, `"${userType.name}"`);
  try {
    return parseEachId(`${name}.id`, Number.isSafeInteger(id) ? String(id) : id);
  } catch (error) {
    return error as AppError;
  }
}

/** A schema without what only gateways ask for: types and root fields whose names begin with one underscore. */
export function withoutFederation(schema: GraphQLSchema): GraphQLSchema {
  const { types, query, ...config } = schema.toConfig();
  const { fields, ...root } = (query as GraphQLObjectType).toConfig();
  const isOwn = (name: string) => !/^_[^_]/.test(name);
  const own = new GraphQLObjectType({
    ...root,
    fields: Object.fromEntries(Object.entries(fields).filter(([name]) => isOwn(name))),
  });
  const ownTypes = types.filter(({ name }) => isOwn(name) && name !== own.name);
  return lexicographicSortSchema(new GraphQLSchema({ ...config, query: own, types: ownTypes, assumeValid: true }));
}

let sdl: string | undefined;

/** The schema as those who compose subgraphs read it. */
export function printSubgraph(schema: GraphQLSchema): string {
  // printSchema omits directives.
  sdl ??=
    LINK +
    ONE_OF +
    printSchema(withoutFederation(schema)).replace(
      /^type (\w+)(?= \{$)/gm,
      (line, name: string) => line + directivesOf(schema, name),
    );
  return sdl;
}

function directivesOf(schema: GraphQLSchema, type: string): string {
  const directives = (schema.getType(type)?.extensions['directives'] ?? []) as DirectiveList;
  return directives
    .map(({ name, args = {} }) => {
      const pairs = Object.entries(args).map(([key, value]) => `${key}: ${JSON.stringify(value)}`);
      return ` @${name}${pairs.length === 0 ? '' : `(${pairs.join(', ')})`}`;
    })
    .join('');
}
