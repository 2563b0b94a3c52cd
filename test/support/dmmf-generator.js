import { writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

// A generator for `prisma generate` that writes down what Prisma understood of the schema (its DMMF) as JSON. Prisma asks
// on stdin and is answered on stderr, one JSON-RPC message a line.
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === 'generate') writeFileSync(params.generator.output.value, JSON.stringify(params.dmmf.datamodel));
  const result = method === 'getManifest' ? { manifest: { prettyName: 'DMMF', defaultOutput: 'dmmf.json' } } : null;
  process.stderr.write(`${JSON.stringify({ jsonrpc: '2.0', id, result })}\n`);
});
