import { execFile, spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../support/app.js';
import { ROOT } from '../support/checkout.js';
import { type RunningServer, startServer } from '../support/command.js';

/** The requests of the served pages in each of their languages, as a reader copies them: all of a sample have the same answer. */

const run = promisify(execFile);
const LANGUAGES = ['curl', 'TypeScript', 'Python'] as const;
/** Those of Python need the package `requests`, and stand aside where it is missing. */
const hasRequests = spawnSync('python3', ['-c', 'import requests']).status === 0;
const RUN = LANGUAGES.filter((language) => language !== 'Python' || hasRequests);
const PAGES = ['credentials', 'rest', 'graphql', 'changes'];
/** What a request changes has another answer the second time. */
const UNLIKE = /"created"|loginCount|NOT_FOUND|CONFLICT|There is no user/;
/** When it was asked, and the lines of a document, which is in one line for curl. */
const OF_THE_MOMENT = /"as_of":"[^"]*"|"asOf":"[^"]*"|"locations":\[[^\]]*\]/g;

interface Sample {
  readonly page: string;
  readonly codes: Record<string, string>;
}

let server: RunningServer;
let folder: string;
let samples: Sample[];
let reference: string[];

beforeAll(async () => {
  // Within the checkout, for the types of Node.js.
  folder = await mkdtemp(join(ROOT, '.made-samples-'));
  server = await startServer({ DATA_DIR: join(folder, 'data') });
  const { paths }: Json = await (await fetch(`${server.url}/openapi.json`)).json();
  reference = Object.values<Json>(paths).flatMap((item) =>
    Object.values<Json>(item).map(({ operationId }) => `reference/${operationId}`),
  );
  samples = (await Promise.all([...reference, ...PAGES].map(samplesOf))).flat();
});
afterAll(async () => {
  await server?.stop();
  await rm(folder, { recursive: true });
});

/** The samples of a page that have several languages, with the values that its script fills in. */
async function samplesOf(page: string): Promise<Sample[]> {
  const html = await (await fetch(`${server.url}/docs/${page}`)).text();
  return [...html.matchAll(/<figure class="languages">(.*?)<\/figure>/gs)].map(([, figure = '']) => ({
    page,
    codes: Object.fromEntries(
      [...figure.matchAll(/<pre[^>]* data-language="(\w+)"><code>(.*?)<\/code><\/pre>/gs)].map(
        ([, language = '', code = '']) => [language, textOf(code)],
      ),
    ),
  }));
}

function textOf(html: string): string {
  const values: Record<string, string> = {
    appId: server.demo?.app_id ?? '',
    appSecret: server.demo?.app_secret ?? '',
    origin: server.url,
  };
  return html
    .replaceAll(/<var data-fill="(\w+)">.*?<\/var>/g, (_, name) => values[name] ?? '')
    .replaceAll(/<[^>]*>/g, '')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&amp;', '&');
}

/** The files of TypeScript are compiled together, strictly. */
async function compile(): Promise<void> {
  const names = samples.map((_, at) => `sample${at}.ts`);
  for (const [at, { codes }] of samples.entries())
    await writeFile(join(folder, names[at] ?? ''), codes['TypeScript'] ?? '');
  const options = '--strict --module nodenext --target es2023 --types node --ignoreConfig'.split(' ');
  await run(join(ROOT, 'node_modules/.bin/tsc'), [...options, ...names], { cwd: folder }).catch(({ stdout }) =>
    expect.unreachable(stdout),
  );
}

async function answerOf({ codes }: Sample, at: number, language: (typeof LANGUAGES)[number]): Promise<Json> {
  // Without the credentials in the environment: the sample has those of the demo itself.
  const env = { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '' };
  if (language === 'curl') return JSON.parse((await run('sh', ['-c', codes['curl'] ?? ''], { env })).stdout);
  if (language === 'Python') {
    const shown = `${codes['Python']}\nimport json, sys\nprint(json.dumps(response.json()), file=sys.stderr)\n`;
    return JSON.parse((await run('python3', ['-c', shown], { env })).stderr);
  }
  const file = join(folder, `sample${at}.js`);
  const code = await readFile(file, 'utf8');
  expect(code).toContain('console.log(await response.json());');
  await writeFile(file, code.replace('console.log(await response.json());', 'console.log(await response.text());'));
  return JSON.parse((await run(process.execPath, [file], { env })).stdout);
}

describe('the samples of the served pages', () => {
  test('are there in each language, for each operation of REST and each request of the guides', () => {
    for (const { page, codes } of samples)
      expect([page, Object.keys(codes)]).toEqual([page, expect.arrayContaining([...LANGUAGES])]);
    expect(samples.filter(({ page }) => reference.includes(page)).map(({ page }) => page)).toEqual(reference);
    expect(samples.filter(({ page }) => page === 'rest').length).toBeGreaterThanOrEqual(7);
    expect(samples.filter(({ page }) => page === 'graphql').length).toBeGreaterThanOrEqual(9);
  });

  test('compile, run as they are copied, and answer the same in each language', async () => {
    await compile();
    for (const [at, sample] of samples.entries()) {
      const answers: string[] = [];
      for (const language of RUN)
        answers.push(JSON.stringify(await answerOf(sample, at, language)).replaceAll(OF_THE_MOMENT, ''));
      const [first = ''] = answers;
      expect(first, sample.page).toMatch(/^\{"(message|data|errors|error)":/);
      if (!UNLIKE.test(answers.join())) expect([sample.page, answers]).toEqual([sample.page, answers.map(() => first)]);
      // An operation of the reference does what it says.
      if (reference.includes(sample.page))
        expect([sample.page, first]).toEqual([sample.page, expect.stringMatching(/^\{"message":/)]);
    }
  });
});
