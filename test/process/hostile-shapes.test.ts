import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { LARGEST_ANSWER_BYTES } from '#dist/domain/input-limits.js';
import { prepareRequest, weightOfCost, weightOfReading } from '#dist/engine/execution.js';
import { LIMITS } from '#dist/engine/limits.js';
import { engine } from '#dist/graphql/engine.js';
import { weightOfBody } from '#dist/http/body.js';
import type { Json } from '../support/app.js';
import { type Credentials, useServer } from '../support/command.js';
import { type Asked, type Fixture, fixtureLines, SHAPES, type Shape } from '../support/hostile-shapes.js';
import { headersOf } from '../support/writers.js';

/**
 * No request costs more than its weight. Each shape is sent at the largest accepted size, both often enough to be
 * compiled and through Yoga. The server's metrics give its CPU time and its longest event loop pause.
 */

/** CPU limit for a unit of weight (src/http/admission.ts). It includes the database where that is embedded. */
const MAX_CPU_MS_OF_A_UNIT = inject('engine') === 'embedded' ? 10 : 5;
/** Allowed for any weight: the minimum of every request, and other work of the machine. */
const FREE_CPU_MS = 40;
const MAX_PAUSE_MS = 200;
/** Three executions make an operation a compiled one. For figures instead of a test, TIMES says how often each is sent at least. */
const [COMPILED, YOGA] = [4, 1].map((least) => Math.max(least, Number(process.env['TIMES'] ?? 1))) as [number, number];
/** So often where other work of the machine disturbs. */
const MOST_TIMES = 20;

const server = useServer({ settings: { METRICS_PORT: '0', LOG_LEVEL: 'error', REQUEST_TIMEOUT_MS: '60000' } });
let project: Credentials;
let fixture: Fixture;
const table: string[] = [];

beforeAll(async () => {
  project = await server.createProject();
  await server.runWith([...fixtureLines()].join(''), 'user', 'import', '--project', project.app_id);
  const { data } = (await ask({ query: '{ users(first: 100) { nodes { id authValue } } }' })).body;
  const [rich] = data.users.nodes.filter((user: Json) => user.authValue === 'rich');
  fixture = { ids: data.users.nodes.map((user: Json) => user.id), rich: rich.id };
}, 120_000);

afterAll(() => {
  process.stdout.write(
    ['| shape | units | CPU ms | CPU ms a unit | pause ms | KiB |', '|---|---:|---:|---:|---:|---:|', ...table].join(
      '\n',
    ),
  );
});

interface Answer {
  readonly status: number;
  readonly bytes: number;
  readonly body: Json;
}

async function ask(asked: Asked, more: object = {}): Promise<Answer> {
  const response = await fetch(`${server.url()}/graphql`, {
    method: 'POST',
    headers: headersOf(project),
    body: JSON.stringify({ ...asked, ...more }),
  });
  const text = await response.text();
  return { status: response.status, bytes: Buffer.byteLength(text), body: JSON.parse(text) };
}

/** CPU time until now, and the longest pause since the last call. */
async function usage(): Promise<{ cpuMs: number; pauseMs: number }> {
  const text = await (await fetch(server.metricsUrl())).text();
  const read = (name: string) => 1_000 * Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
  return { cpuMs: read('process_cpu_seconds_total'), pauseMs: read('nodejs_eventloop_lag_max_seconds') };
}

/** The largest request of a shape that the limits accept, with its weight. */
function largest(shape: Shape): { asked: Asked; units: number } {
  const isValid = ({ query }: Asked) => engine.readDocument(query).errors.length === 0;
  const mustBeValid = isValid(shape.make(1, fixture));
  const fits = (size: number) => {
    const asked = shape.make(size, fixture);
    const bytes = JSON.stringify(asked).length;
    if (asked.query.length > LIMITS.characters || bytes > 250_000 || (mustBeValid && !isValid(asked))) return null;
    const { query, variables, operationName } = asked;
    const { cost } = prepareRequest(engine.readDocument(query), { query, variables, operationName });
    return cost > LIMITS.cost
      ? null
      : { asked, units: weightOfCost(cost) + weightOfReading(query) + weightOfBody(bytes) };
  };
  let [good, bad] = [1, shape.most + 1];
  while (bad - good > 1) {
    const size = Math.floor((good + bad) / 2);
    if (fits(size)) good = size;
    else bad = size;
  }
  return fits(good) as { asked: Asked; units: number };
}

describe('a request costs no more than its weight', () => {
  test.each(SHAPES)(
    '$name',
    async (shape) => {
      const { asked, units } = largest(shape);
      for (const [more, least] of [
        [{}, COMPILED],
        [{ extensions: {} }, YOGA],
      ] as const) {
        let cpuMs = Number.POSITIVE_INFINITY;
        let pauseMs = Number.POSITIVE_INFINITY;
        let bytes = 0;
        const each = () => Math.max(0, cpuMs - FREE_CPU_MS) / units;
        const isRight = () => each() < MAX_CPU_MS_OF_A_UNIT && pauseMs < MAX_PAUSE_MS;
        for (let time = 0; time < least || (time < MOST_TIMES && !isRight()); time += 1) {
          const before = await usage();
          const answer = await ask(asked, more);
          const after = await usage();
          expect([200, 400, 413]).toContain(answer.status);
          expect(answer.body.errors?.length ?? 0).toBeLessThanOrEqual(5);
          expect(answer.bytes).toBeLessThanOrEqual(LARGEST_ANSWER_BYTES);
          // The best of each, so that other work of the machine does not fail a test.
          cpuMs = Math.min(cpuMs, after.cpuMs - before.cpuMs);
          pauseMs = Math.min(pauseMs, after.pauseMs);
          bytes = answer.bytes;
        }
        table.push(
          `| ${shape.name} | ${units} | ${cpuMs.toFixed(0)} | ${(cpuMs / units).toFixed(2)} | ${pauseMs.toFixed(0)} | ${(bytes / 1024).toFixed(0)} |`,
        );
        expect(each()).toBeLessThan(MAX_CPU_MS_OF_A_UNIT);
        expect(pauseMs).toBeLessThan(MAX_PAUSE_MS);
      }
    },
    120_000,
  );
});
