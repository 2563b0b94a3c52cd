import { readFileSync, readdirSync, writeFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { minifyIntrospection, outputIntrospectionFile } from 'gql.tada/internal';
import { buildSchema, introspectionFromSchema, parse, validate } from 'graphql';

/**
 * Makes the types of the operator schema, from which gql.tada derives the type of every operation in the pages, and checks
 * each operation against the schema: gql.tada gives a field that does not exist the type `unknown`, which is not an error yet.
 */
const HERE = import.meta.dirname;
const schema = buildSchema(readFileSync(join(HERE, '../schema.graphql'), 'utf8'));

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

const introspection = minifyIntrospection(introspectionFromSchema(schema, { descriptions: false }));
mkdirSync(join(HERE, 'generated'), { recursive: true });
writeFileSync(
  join(HERE, 'generated/introspection.d.ts'),
  outputIntrospectionFile(introspection, { fileType: '.d.ts', shouldPreprocess: true }),
);
