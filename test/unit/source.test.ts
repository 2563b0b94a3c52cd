import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../support/checkout.js';
import { NOT_ON_EMBEDDED, NOT_ON_POSTGRES, ON_ONE_ENGINE } from '../support/files-by-engine.js';

/** Rules for the source that Biome (biome.json) cannot check. */

const sources = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((path) => /\.tsx?$/.test(path) && !path.includes('generated'))
  .map((path) => ({ path, text: readFileSync(join(ROOT, 'src', path), 'utf8') }));

test('the source folder has at most four files', () => {
  const files = readdirSync(join(ROOT, 'src'), { withFileTypes: true }).filter(({ name }) => /\.ts$/.test(name));
  expect(files.map(({ name }) => name).length).toBeLessThanOrEqual(4);
  expect(sources.length).toBeGreaterThan(60);
});

test('the fields of an object and the items of a list stand one a line: no literal is spread to pack them', () => {
  const packs = /\.\.\.(\(?\{|\(?\[')/;
  expect(sources.filter(({ text }) => packs.test(text)).map(({ path }) => path)).toEqual([]);
});

test('the type of a service is an interface that is written, not what its maker happens to return', () => {
  const derived = sources.filter(({ text }) => text.includes('ReturnType<typeof create'));
  expect(derived.map(({ path }) => path).sort()).toEqual([
    // Its functions have the types of the generated operations: an interface would only repeat them.
    'client/client.ts',
    // It puts the services together: the list of them is there once.
    'context.ts',
  ]);
});

test('the source map in docs/changing.md names exactly the existing files', () => {
  const page = readFileSync(join(ROOT, 'docs/changing.md'), 'utf8');
  const map = /```tree\nsrc\/\n(.*?)```/s.exec(page)?.[1] ?? '';
  // Two spaces per level: the folder of a file is the last line with a folder at that level.
  let wing = '';
  let folder: string | undefined;
  const named = map.split('\n').flatMap((line) => {
    wing = /^ {2}([a-z]+)\//.exec(line)?.[1] ?? (/^ {2}\S/.test(line) ? '' : wing);
    folder = /^ {4}([a-z]+)\//.exec(line)?.[1] ?? (/^ {6}\S/.test(line) ? folder : undefined);
    const files = line.match(/[a-z0-9-]+(?:\.sql)?\.tsx?\b/g) ?? [];
    return files.map((file) => [wing, folder, file].filter(Boolean).join('/'));
  });
  const expected = sources.map(({ path }) => path);
  expect(expected.filter((path) => !named.includes(path))).toEqual([]);
  expect(named.filter((path) => !expected.includes(path))).toEqual([]);
});

test('commands and the dashboard act under the name of an operator', () => {
  const acting = sources.filter(({ path }) => /^(cli|dashboard)\//.test(path));
  const calls = acting.flatMap(({ path, text }) =>
    [...text.matchAll(/projects\.(?:getScope|createProject)\(((?:[^()]|\([^()]*\))*)\)/g)].map(
      ([, given]) => `${path} ${given}`,
    ),
  );
  expect(calls.length).toBeGreaterThan(3);
  expect(calls.filter((call) => !/operator/.test(call))).toEqual([]);
});

test('statements about rows stand in files *.sql.ts, where test/db/growth.slow.test.ts runs all of them', () => {
  // Those of db/ look at the server, and at no table of ours.
  const others = sources.filter(({ path }) => !/\.sql\.ts$|^db\//.test(path));
  expect(others.filter(({ text }) => /Prisma\.(sql|raw)\b/.test(text)).map(({ path }) => path)).toEqual([]);
});

test('no test is written for an engine on which its file does not run', () => {
  const files = readdirSync(join(ROOT, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.test.ts') && !path.includes('node_modules'))
    .map((path) => ({ path: `test/${path}`, text: readFileSync(join(ROOT, 'test', path), 'utf8') }));
  const isAmong = (patterns: readonly string[], path: string) => patterns.some((each) => patternOf(each).test(path));
  const never = files.filter(({ path, text }) => {
    if (isAmong(NOT_ON_POSTGRES, path)) return /runIf\(.*'postgres'\)/.test(text);
    // What runs on one engine runs on PostgreSQL where there is one; `npm run nightly` runs it on both.
    return isAmong([...NOT_ON_EMBEDDED, ...ON_ONE_ENGINE], path) && /runIf\((?!isNightly).*'embedded'\)/.test(text);
  });
  expect(never.map(({ path }) => path)).toEqual([]);
  for (const pattern of [...NOT_ON_POSTGRES, ...NOT_ON_EMBEDDED, ...ON_ONE_ENGINE])
    for (const one of alternativesOf(pattern))
      expect(
        files.some(({ path }) => patternOf(one).test(path)),
        one,
      ).toBe(true);
});

/** The patterns of one with alternatives in braces. */
function alternativesOf(pattern: string): string[] {
  const [, before, names, after] = /^(.*)\{(.*)\}(.*)$/.exec(pattern) ?? [];
  return names === undefined ? [pattern] : names.split(',').map((name) => `${before}${name}${after}`);
}

/** The paths of a pattern, as an expression. */
function patternOf(pattern: string): RegExp {
  const paths = alternativesOf(pattern).map((each) => each.replaceAll('.', '\\.').replaceAll('**', '.*'));
  return new RegExp(`^(${paths.join('|')})$`);
}

const OWNERS: Record<string, RegExp> = {
  'telemetry/metrics.ts': /'prom-client'/,
  'telemetry/tracing.ts': /'@opentelemetry\//,
};

test.each(Object.entries(OWNERS))(
  'only %s imports its packages, and no other file imports it statically',
  (owner, packages) => {
    const specifier = new RegExp(`^(import|export) (?!type)[^;]*/${owner.split('/')[1]?.replace('.ts', '.js')}'`, 'm');
    expect(sources.find(({ path }) => path === owner)?.text).toMatch(packages);
    const others = sources.filter(({ path }) => path !== owner);
    expect(others.filter(({ text }) => packages.test(text) || specifier.test(text)).map(({ path }) => path)).toEqual(
      [],
    );
  },
);

test('the source contains no hosts except example domains and localhost', () => {
  const hosts = sources.flatMap(({ path, text }) =>
    [...text.matchAll(/\b[a-z][a-z0-9+.-]*:\/\/(?:[^\s/@'"`]*@)?([a-z0-9.-]+)/gi)].map(([, host]) => `${path} ${host}`),
  );
  // The name of a specification, which is never asked.
  const names = ['graphql/federation.ts specs.apollo.dev'];
  const allowed = / (127\.0\.0\.1|localhost|([a-z0-9-]+\.)*example\.(com|net|org))$/i;
  expect(hosts.filter((found) => !allowed.test(found) && !names.includes(found))).toEqual([]);
  expect(hosts.length).toBeGreaterThan(0);
});

test('what outlives its request begins in http/lifetime.ts: no other place makes an answer that goes on', () => {
  // Work that is only told of the end of an answer goes on without a weight, a bound and a permission.
  const ends = /'(close|drain|finish|aborted|end)'/;
  const listens =
    /\b(reply|response|request|raw|req|res)\b[.\w]*\.(on|once)\(|\bonce\((reply|response|raw|res|output)\b/;
  const answering = sources.filter(
    ({ path }) => /^(rest|graphql|dashboard|engine|users|projects|feed)\//.test(path) && !path.includes('pages/'),
  );
  expect(answering.length).toBeGreaterThan(60);
  const listening = answering.flatMap(({ path, text }) =>
    text.split('\n').flatMap((line) => (ends.test(line) && listens.test(line) ? [`${path} ${line.trim()}`] : [])),
  );
  expect(listening).toEqual([]);
  // A stream that is an answer comes from `begin`, which has the terms of its life.
  const serving = sources.filter(({ path }) => !path.startsWith('cli/'));
  const streams = serving.filter(({ text }) => /\bnew (PassThrough|Readable|Transform)\(|Readable\.from\(/.test(text));
  expect(streams.map(({ path }) => path)).toEqual(['http/lifetime.ts']);
});

test('a page may be read in the minutes that it says', () => {
  const docs = join(ROOT, 'docs');
  const pages = readdirSync(docs, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md') && !path.startsWith('decisions/'))
    .map((path) => ({ path, text: readFileSync(join(docs, path), 'utf8') }));
  const unsaid = pages.filter(({ text }) => minutesOf(text) === undefined).map(({ path }) => path);
  // The contract, what is generated to look up, and the list of all pages.
  expect(unsaid.sort()).toEqual(['README.md', 'configuration.md', 'spec.md']);
  const tooLong = pages.flatMap(({ path, text }) => {
    const words = text.trim().split(/\s+/).length;
    const most = (minutesOf(text) ?? Number.POSITIVE_INFINITY) * WORDS_A_MINUTE * 1.05;
    return words > most ? [`${path}: ${words} words, say at least ${Math.ceil(words / WORDS_A_MINUTE)} minutes`] : [];
  });
  expect(tooLong).toEqual([]);
  const texts = new Map(pages.map(({ path, text }) => [path, text]));
  const named = [...(texts.get('README.md') ?? '').matchAll(/\]\(([\w/.-]+)\) \((\d+)\)/g)];
  const wrong = named.flatMap(([, path = '', minutes]) => {
    const said = minutesOf(texts.get(path) ?? readFileSync(join(docs, path), 'utf8'));
    return said === undefined || said === Number(minutes)
      ? []
      : [`README.md says ${minutes} of ${path}, which says ${said}`];
  });
  expect(named.length).toBeGreaterThan(10);
  expect(wrong).toEqual([]);
});

/** As docs/README.md says. */
const WORDS_A_MINUTE = 200;

/** The minutes that a page says in its first lines. */
function minutesOf(text: string): number | undefined {
  const [, minutes] = /\b(\d+) minutes\b/.exec(text.slice(0, 400)) ?? [];
  return minutes === undefined ? undefined : Number(minutes);
}

test('every link to a heading of a page leads to one, also from the source and from errors', () => {
  const roots = ['README.md', 'CHANGELOG.md', 'docs', 'src', 'test'];
  const paths = roots.flatMap((root) =>
    /\.md$/.test(root)
      ? [root]
      : readdirSync(join(ROOT, root), { recursive: true, encoding: 'utf8' })
          .filter((path) => /\.(md|ts|tsx|mjs)$/.test(path) && !path.includes('node_modules'))
          .map((path) => join(root, path)),
  );
  const headings = new Map<string, ReadonlySet<string>>();
  const headingsOf = (page: string): ReadonlySet<string> => {
    const known = headings.get(page);
    if (known !== undefined) return known;
    const text = existsSync(join(ROOT, page)) ? readFileSync(join(ROOT, page), 'utf8') : '';
    const made = new Set(
      [...text.replaceAll(/^```.*?^```$/gms, '').matchAll(/^#+ (.+)$/gm)].map(([, title = '']) => anchorOf(title)),
    );
    headings.set(page, made);
    return made;
  };
  const links = paths.flatMap((from) =>
    [
      ...readFileSync(join(ROOT, from), 'utf8').matchAll(/\]\(([\w./-]*)#([\w-]+)\)|\b(docs\/[\w/-]+\.md)#([\w-]+)/g),
    ].map(([link, path = '', heading, named, its]) => {
      // The texts of errors and of settings stand in a page of docs.
      const folder = from.endsWith('.md') ? dirname(from) : 'docs';
      const page = named ?? (path === '' ? from : join(folder, path));
      return { link: `${from}: ${link}`, isDead: !headingsOf(page).has(heading ?? its ?? '') };
    }),
  );
  expect(links.length).toBeGreaterThan(100);
  expect(links.filter(({ isDead }) => isDead).map(({ link }) => link)).toEqual([]);
});

/** The anchor that GitHub gives a heading. */
function anchorOf(title: string): string {
  const text = title.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase();
  return text.replaceAll(/[^\w\- ]/g, '').replaceAll(' ', '-');
}
