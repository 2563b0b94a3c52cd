import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { minifyIntrospection, outputIntrospectionFile } from 'gql.tada/internal';
import { introspectionFromSchema, lexicographicSortSchema, parse, validate } from 'graphql';
import { schema } from '../../../dist/dashboard/schema.js';
import { schema as ofCallers } from '../../../dist/graphql/schema.js';

/*
 * Makes the types of the two schemas, from which gql.tada derives the types of the operations of pages and commands, and checks each
 * operation: gql.tada gives a field that does not exist the type `unknown`, which is not an error yet.
 */
const HERE = import.meta.dirname;

/** The schema of the documents that are marked so. */
const SCHEMAS = { graphql: schema, api: ofCallers };

/** The faults of the documents in the files of a folder, whose fragments are for each other. */
function faultsIn(folder) {
  const sources = readdirSync(folder).filter((name) => /\.tsx?$/.test(name));
  const documents = sources.flatMap((name) =>
    [...readFileSync(join(folder, name), 'utf8').matchAll(/\b(graphql|api)\(\s*`([^`]*)`/g)].map(([, mark, text]) => ({
      name,
      mark,
      text,
    })),
  );
  const fragments = new Map(
    documents.flatMap(({ text }) => {
      const [, called] = /^\s*fragment (\w+)/.exec(text) ?? [];
      return called === undefined ? [] : [[called, text]];
    }),
  );
  /** A document with the fragments that it uses, and those that they use. */
  function whole(text) {
    const texts = new Set([text]);
    for (const each of texts)
      for (const [, called] of each.matchAll(/\.\.\.(\w+)/g))
        if (fragments.has(called)) texts.add(fragments.get(called));
    return [...texts].join('\n');
  }
  return documents.flatMap(({ name, mark, text }) =>
    validate(SCHEMAS[mark], parse(whole(text)))
      .map(({ message }) => message)
      .filter((message) => !/^Fragment "\w+" is never used/.test(message))
      .map((message) => `${name}: ${message}`),
  );
}

const faults = [HERE, join(HERE, '../../cli')].flatMap(faultsIn);
if (faults.length > 0) {
  process.stderr.write(`${faults.join('\n')}\n`);
  process.exit(1);
}

function writeTypes(name, of) {
  const introspection = introspectionFromSchema(lexicographicSortSchema(of), { descriptions: false });
  const types = outputIntrospectionFile(minifyIntrospection(introspection), {
    fileType: '.d.ts',
    shouldPreprocess: true,
  });
  const file = join(HERE, '../../../dist/dashboard', name);
  // A newer file would have the pages built again.
  if (!existsSync(file) || readFileSync(file, 'utf8') !== types) writeFileSync(file, types);
}

writeTypes('introspection.d.ts', schema);
writeTypes('introspection-of-callers.d.ts', ofCallers);
