import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { minifyIntrospection, outputIntrospectionFile } from 'gql.tada/internal';
import { introspectionFromSchema, lexicographicSortSchema, parse, validate } from 'graphql';
import { schema } from '../../../dist/dashboard/schema.js';

/**
 * Makes the types of the operator schema, from which gql.tada derives the type of every operation in the pages, and checks
 * each operation against the schema: gql.tada gives a field that does not exist the type `unknown`, which is not an error yet.
 */
const HERE = import.meta.dirname;

const sources = readdirSync(HERE).filter((name) => /\.tsx?$/.test(name));
const documents = sources.flatMap((name) =>
  [...readFileSync(join(HERE, name), 'utf8').matchAll(/graphql\(\s*`([^`]*)`/g)].map(([, text = '']) => ({
    name,
    text,
  })),
);
const fragments = documents.filter(({ text }) => /^\s*fragment /.test(text));
const faults = documents.flatMap(({ name, text }) => {
  const used = fragments.filter((fragment) => {
    const called = /fragment (\w+)/.exec(fragment.text)?.[1];
    return text === fragment.text ? false : new RegExp(`\\.\\.\\.${called}\\b`).test(text);
  });
  const whole = [text, ...used.map((fragment) => fragment.text)].join('\n');
  return validate(schema, parse(whole))
    .map(({ message }) => message)
    .filter((message) => !/^Fragment "\w+" is never used/.test(message))
    .map((message) => `${name}: ${message}`);
});
if (faults.length > 0) {
  process.stderr.write(`${faults.join('\n')}\n`);
  process.exit(1);
}

const introspection = introspectionFromSchema(lexicographicSortSchema(schema), { descriptions: false });
const types = outputIntrospectionFile(minifyIntrospection(introspection), {
  fileType: '.d.ts',
  shouldPreprocess: true,
});
const file = join(HERE, 'generated/introspection.d.ts');
mkdirSync(join(HERE, 'generated'), { recursive: true });
// A newer file would have the pages built again.
if (!existsSync(file) || readFileSync(file, 'utf8') !== types) writeFileSync(file, types);
