import { execFile, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import autocannon from 'autocannon';

/**
 * Load on one server. Uses wrk if it is installed, because it needs the least CPU of the machine that it shares with
 * the server and the database. Otherwise it uses autocannon, which slows a fast server more than a slow one.
 */

const WRK_SCRIPT = fileURLToPath(new URL('wrk.lua', import.meta.url));

/** @returns {Promise<'wrk' | 'autocannon'>} */
export async function findGenerator() {
  // Without arguments wrk prints its usage and exits with 1.
  const found = await promisify(execFile)('wrk', ['-v']).then(
    () => true,
    ({ code }) => code !== 'ENOENT',
  );
  return found ? 'wrk' : 'autocannon';
}

/** Where a request has it, the next number of a load is put: ten characters, as the numbers of bodies have, whose length is sent before them. */
export const NUMBER = '{{number}}';

/**
 * The nth number of a load: it steps through `count` numbers from `first` on. None is drawn twice before all were, as `step` and `count` have no
 * common divisor; a load that draws more has failed.
 * @param {{ first: number, step: number, count: number }} numbers
 */
export const numberAt = ({ first, step, count }, n) => first + ((n * step) % count);

/** A request with a number in it. */
export function withNumber(request, number) {
  const put = (text) => (typeof text === 'string' ? text.replaceAll(NUMBER, String(number)) : text);
  const headers = Object.entries(request.headers ?? {}).map(([name, value]) => [name, put(value)]);
  return { ...request, path: put(request.path), headers: Object.fromEntries(headers), body: put(request.body) };
}

/**
 * Repeats the requests, one in flight per connection. With `numbers`, each gets a number of its own; an answer without the text `expected` is
 * a failure.
 * @returns {Promise<{ rps: number, p50Ms: number, p99Ms: number, responses: number, failures: number }>}
 */
export function load(generator, options) {
  return generator === 'wrk' ? loadByWrk(options) : loadByAutocannon(options);
}

async function loadByWrk({ url, headers, requests, numbers, expected = '', connections, seconds }) {
  const directory = await mkdtemp(join(tmpdir(), 'userdir-bench-wrk-'));
  try {
    const requestsFile = join(directory, 'requests');
    const resultFile = join(directory, 'result');
    const host = new URL(url).host;
    // No URL, JSON text or header contains a NUL.
    await writeFile(requestsFile, requests.map((request) => rawRequest(host, headers, request)).join('\0'));
    const args = ['-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', '120s', '-s', WRK_SCRIPT, url];
    await run('wrk', args, {
      ...process.env,
      BENCH_REQUESTS: requestsFile,
      BENCH_RESULT: resultFile,
      BENCH_EXPECTED: expected,
      BENCH_NUMBERS: numbers === undefined ? '' : `${numbers.first} ${numbers.step} ${numbers.count}`,
    });
    const result = JSON.parse(await readFile(resultFile, 'utf8'));
    return { ...result, rps: result.responses / result.seconds };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function rawRequest(host, headers, { method, path, headers: own, body }) {
  const lines = [`${method} ${path} HTTP/1.1`, `Host: ${host}`];
  for (const [name, value] of Object.entries({ ...headers, ...own })) {
    if (body !== undefined || name !== 'content-type') lines.push(`${name}: ${value}`);
  }
  if (body !== undefined) lines.push(`content-length: ${Buffer.byteLength(body)}`);
  return `${lines.join('\r\n')}\r\n\r\n${body ?? ''}`;
}

function run(command, args, env) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { env, stdio: ['ignore', 'ignore', 'inherit'] });
    const end = () => child.kill('SIGKILL');
    process.once('exit', end);
    child.once('error', reject);
    child.once('exit', (code) => {
      process.off('exit', end);
      if (code === 0) resolve();
      else reject(new Error(`${command} ended with ${code}.`));
    });
  });
}

async function loadByAutocannon({ url, headers, requests, numbers, expected = '', connections, seconds }) {
  const latencies = [];
  let failures = 0;
  let client = 0;
  let sent = 0;
  /** As autocannon builds it, anew each time it is sent. */
  const numbered = (built) => {
    sent += 1;
    if (sent > numbers.count) failures += 1;
    const request = withNumber(built, numberAt(numbers, sent));
    // Fastify refuses the type of a body that is not there.
    if (request.method === 'DELETE') delete request.headers['content-type'];
    return request;
  };
  const startedAt = performance.now();
  const running = autocannon({
    url,
    connections,
    duration: seconds,
    timeout: 120,
    headers,
    // GraphQL answers errors with status 200.
    verifyBody: (body) => !body.includes('"errors"') && body.includes(expected),
    // Each connection starts at another place in the list, so that they do not all send the same request at once.
    setupClient: (each) => {
      const start = Math.floor((client * requests.length) / connections);
      client += 1;
      const own = Array.from({ length: 200 }, (_, place) => ({ ...requests[(start + place) % requests.length] }));
      each.setRequests(numbers === undefined ? own : own.map((request) => ({ ...request, setupRequest: numbered })));
    },
  });
  // The histogram of autocannon has only whole milliseconds.
  running.on('response', (_client, status, _bytes, ms) => {
    latencies.push(ms);
    if (status !== 200) failures += 1;
  });
  const { errors, mismatches } = await running;
  const elapsed = (performance.now() - startedAt) / 1_000;
  latencies.sort((a, b) => a - b);
  const percentile = (share) => latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * share))] ?? 0;
  return {
    rps: latencies.length / elapsed,
    p50Ms: percentile(0.5),
    p99Ms: percentile(0.99),
    responses: latencies.length,
    failures: failures + errors + mismatches,
  };
}
