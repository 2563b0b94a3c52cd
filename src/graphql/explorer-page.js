/* Makes dist/graphql/explorer.html.gz: GraphiQL as one page, without its options. Its package has each asset twice and would be a twelfth of an installation. */
import { rename, writeFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import { renderGraphiQL } from '@graphql-yoga/render-graphiql';

const options = { title: 'userdir', favicon: 'data:,' };
// explorer.ts puts the options there.
const page = renderGraphiQL(options).replace(`${JSON.stringify(options)},`, '__OPTIONS__,');
if (!page.includes('__OPTIONS__')) throw new Error('GraphiQL takes its options in another way.');
const file = new URL('../../dist/graphql/explorer.html.gz', import.meta.url);
// A build that is killed here must not leave a half of it.
const part = new URL('explorer.part', file);
await writeFile(part, gzipSync(page, { level: 9 }));
await rename(part, file);
