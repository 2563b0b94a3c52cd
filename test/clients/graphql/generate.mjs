import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { codegen } from '@graphql-codegen/core';
import * as documents from '@graphql-codegen/typed-document-node';
import * as types from '@graphql-codegen/typescript-operations';
import { parse } from 'graphql';

/** Writes the types and typed documents of operations.graphql, which does not succeed where one does not fit schema.graphql. */
const read = async (name) => parse(await readFile(new URL(name, import.meta.url), 'utf8'));
const generated = new URL('generated/operations.ts', import.meta.url);

await mkdir(new URL('.', generated), { recursive: true });
await writeFile(
  generated,
  await codegen({
    filename: generated.pathname,
    schema: await read('../../../schema.graphql'),
    documents: [{ location: 'operations.graphql', document: await read('operations.graphql') }],
    plugins: [{ types: {} }, { documents: {} }],
    pluginMap: { types, documents },
    config: { useTypeImports: true, strictScalars: true, scalars: { DateTime: 'string', JSON: 'object' } },
  }),
);
