/** Makes dist/guides/guides.json.gz: the pages of docs/ for callers and the REST reference as HTML, the index of their search, their style and their script. */
import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import { createServer } from '../../dist/app/app.js';
import { VERSION } from '../../dist/config/build.js';
import { parseConfig } from '../../dist/config/config.js';
import { createContext } from '../../dist/context.js';
import { COMMAND } from '../../dist/errors.js';
import { createLogger } from '../../dist/telemetry/logger.js';
import { escapeHtml, linksToFiles, PROGRAMS, renderPage } from './markdown.js';
import { referencePages } from './reference.js';
import { partOf } from './samples.js';

const ROOT = new URL('../../', import.meta.url);
const readText = (path) => readFile(new URL(path, ROOT), 'utf8');

/** The pages by group: name, title, and what a caller finds there. A page NAME is docs/NAME.md. */
const GROUPS = {
  Guides: [
    ['credentials', 'Credentials', 'What a secret looks like, what it may do, and how to replace it.'],
    ['graphql', 'GraphQL', 'Register, list, find and verify, with a request and its answer for each.'],
    ['client', 'Client', 'For JavaScript and TypeScript, with retries, pages and copies.'],
    ['rest', 'REST', 'The routes, one by one, with curl.'],
    ['changes', 'Changes and webhooks', 'Follow what happens to users, without a gap.'],
    ['moving', 'Move users', 'Bring the users of another system, and take them out.'],
    ['examples', 'Examples', 'Small programs to begin with, in TypeScript, JavaScript and Python.'],
  ],
  'To look up': [
    ['errors', 'Errors', 'What each code means, what to do, and whether to try again.'],
    ['limits', 'Limits', 'How much, how long, how often; and what a GraphQL operation costs.'],
    ['systems', 'Files of users', 'How other systems export users, and the form of an import.'],
    ['spec', 'Contract of REST', 'The specification of the six routes, word for word.'],
    ['compatibility', 'Compatibility', 'What may change in which version.'],
    ['glossary', 'Glossary', 'What words mean in these pages.'],
  ],
};
const REFERENCE = referencePages(await openApiDocument());
/** All pages in the order of the list at the side. */
const ORDER = [
  ...Object.values(GROUPS)
    .flat()
    .map(([name]) => name),
  ...REFERENCE.map(({ name }) => name),
];
const TITLES = new Map([
  ...Object.values(GROUPS).flat(),
  ...REFERENCE.map(({ name, title }) => [name, name === 'reference' ? 'REST reference' : title]),
]);

/** As a service has it that is not open. */
async function openApiDocument() {
  const config = parseConfig({ DASHBOARD: 'off', GRAPHIQL: 'off' });
  const log = createLogger('silent');
  const context = createContext(config, { command: 'build' });
  const server = await createServer({ config, log, context });
  await server.ready();
  const document = server.swagger();
  await server.close();
  await context.close();
  return document;
}

/** The programs of docs/ as a page. */
async function examplesPage() {
  const folders = PROGRAMS.map(async (folder) => {
    const files = await readdir(new URL(`docs/${folder}/`, ROOT));
    return files.sort().map((file) => [file, `docs/${folder}/${file}`]);
  });
  const parts = (await Promise.all(folders)).flat().map(async ([file, path]) => {
    const code = await readText(path);
    const kind = file.split('.').at(-1);
    return `## ${file}\n\n\`\`\`${kind} ${file}\n${code.trim()}\n\`\`\`\n`;
  });
  const intro = [
    '# Examples',
    'Small programs to begin with; the first lines of each say what it does and what it needs. They find the credentials in the environment:',
    '```sh\nexport APP_ID="$APP_ID" APP_SECRET="$APP_SECRET"\n```',
  ];
  return [...intro, ...(await Promise.all(parts))].join('\n\n');
}

/* What is around a page. */

function navigation(current, headings) {
  const link = ([name, title]) => {
    if (name !== current) return `<li><a href="/docs/${name}">${title}</a></li>`;
    const below = headings.map((heading) => `<li><a href="#${heading.id}">${escapeHtml(heading.title)}</a></li>`);
    return `<li><a href="/docs/${name}" aria-current="page">${title}</a><ul>${below.join('')}</ul></li>`;
  };
  const reference = ['REST reference', REFERENCE.map(({ name, title }) => [name, title])];
  const groups = [...Object.entries(GROUPS), reference].map(
    ([title, pages]) => `<h2>${title}</h2><ul>${pages.map(link).join('')}</ul>`,
  );
  return groups.join('');
}

/** The pages before and after one, for who reads all. */
function neighbours(name) {
  const at = ORDER.indexOf(name);
  if (at < 0) return '';
  const link = (rel, word, page) =>
    page === undefined ? '' : `<a href="/docs/${page}" rel="${rel}"><span>${word}</span> ${TITLES.get(page)}</a>`;
  const links = [link('prev', 'Previous', ORDER[at - 1]), link('next', 'Next', ORDER[at + 1])];
  return `<nav class="neighbours" aria-label="Neighbours">${links.join('')}</nav>\n`;
}

/** The text and the samples of a page in two columns where there is room. */
const besideSamples = (html) => `<div class="beside"><div>\n${html}</div></div>\n`;

function shell(title, name, headings, main) {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title} · userdir</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs/guides.css">
<script src="/docs/guides.js" defer></script>
</head>
<body>
<a class="skip" href="#ui-content">Skip to the content</a>
<header>
<a class="brand" href="/">userdir</a>
<button type="button" id="ui-menu" aria-expanded="false" aria-controls="ui-pages">Pages</button>
<search>
<input type="search" id="ui-search" placeholder="Search" aria-label="Search the documentation" aria-keyshortcuts="/" aria-controls="ui-found" autocomplete="off" spellcheck="false" maxlength="100">
<kbd aria-hidden="true">/</kbd>
<div id="ui-found" hidden><p role="status"></p><ul></ul></div>
</search>
<nav aria-label="Try it"><a href="/docs/reference">REST reference</a>${partOf('graphiql', '<a href="/graphql">GraphiQL</a>')}</nav>
</header>
<div class="frame">
<nav id="ui-pages" aria-label="Pages">${navigation(name, headings)}</nav>
<main id="ui-content">
${main}
${neighbours(name)}<footer>userdir ${VERSION}. The project has these pages in its folder <code>docs</code>, with those for operators.</footer>
</main>
</div>
</body>
</html>
`;
}

const FIRST_CALL = `
It needs the App ID and the App Secret of a project; \`${COMMAND} project create --name NAME\` creates one.

\`\`\`sh REST: the newest two users
curl -s -u "$APP_ID:$APP_SECRET" \\
  'http://127.0.0.1:4000/server/users?limit=2'
\`\`\`

\`\`\`sh GraphQL: the same, and how many there are
curl -s -u "$APP_ID:$APP_SECRET" \\
  'http://127.0.0.1:4000/graphql' -H 'content-type: application/json' \\
  -d '{"query": "{ users(first: 2) { totalCount nodes { id authValue } } }"}'
\`\`\``;

const card = ([address, title, what]) => `<li><a href="${address}">${title}</a><span>${what}</span></li>`;

function startPage() {
  const groups = Object.entries(GROUPS).map(
    ([title, pages]) =>
      `<h2>${title}</h2>\n<ul class="cards">${pages.map(([name, ...rest]) => card([`/docs/${name}`, ...rest])).join('')}</ul>`,
  );
  const reference = card(['/docs/reference', 'REST reference', 'Every route, with samples in three languages.']);
  const graphiql = card(['/graphql', 'GraphiQL', 'Write and run queries, with the description of every field.']);
  const openapi = card(['/openapi.json', 'OpenAPI document', 'For generators of clients and for tools.']);
  const schema = card(['/schema.graphql', 'GraphQL schema', 'The same for GraphQL.']);
  const dashboard = card(['/dashboard', 'Dashboard', 'For operators. It needs a link to sign in.']);
  return `<h1>The users of many projects, over GraphQL and REST</h1>
<p>For backends that call userdir over GraphQL or REST: both answer the same questions about the same users, with the App ID and the App Secret of a project, which an operator gives you. Only GraphQL records logins.</p>
<h2>The first call</h2>
${renderPage('', FIRST_CALL, TITLES).html}<h2>Try it</h2>
<ul class="cards">${reference}${partOf('graphiql', graphiql)}${openapi}${schema}${partOf('dashboard', dashboard)}</ul>
${groups.join('\n')}
<p>For monitors: <a href="/livez">/livez</a> while the process lives, <a href="/readyz">/readyz</a> while it can answer.</p>`;
}

const MISSING =
  '<h1>There is no such page</h1>\n<p>Search for it above, or begin at the <a href="/docs">start of the documentation</a>.</p>';

/** As llmstxt.org describes it: what the service is, and its pages as Markdown. */
function listOfPages() {
  const reference = ['REST reference', REFERENCE.map(({ name, title, what }) => [name, title, what])];
  const groups = [...Object.entries(GROUPS), reference].map(
    ([title, pages]) =>
      `## ${title}\n\n${pages.map(([name, page, what]) => `- [${page}](/docs/${name}.md): ${what}`).join('\n')}`,
  );
  const documents =
    '## For programs\n\n- [GraphQL schema](/schema.graphql): every type, field and argument, with descriptions.\n- [OpenAPI document](/openapi.json): the REST routes.';
  return `# userdir\n\n> The users of many projects, over GraphQL and REST, for backends. Each request carries the App ID and the App Secret of a project. In the samples, replace \`http://127.0.0.1:4000\` by the address of this service.\n\n${[...groups, documents].join('\n\n')}\n`;
}

const files = {
  '': shell('Documentation', '', [], startPage()),
  // Its name is no path of a request.
  404: shell('No such page', '', [], MISSING),
  'schema.graphql': await readText('schema.graphql'),
  'guides.css': await readText('src/guides/guides.css'),
  'guides.js': await readText('src/guides/browser.js'),
};
const index = [];
for (const [name, title] of Object.values(GROUPS).flat()) {
  const text = name === 'examples' ? await examplesPage() : await readText(`docs/${name}.md`);
  addPage({ name, title, found: title, text });
}
for (const { name, text } of REFERENCE) {
  const title = TITLES.get(name);
  const found = name === 'reference' ? title : `REST reference › ${title}`;
  addPage({ name, title, found, text });
}

/** A page as HTML and as Markdown, and its sections for the search, where it is called `found`. */
function addPage({ name, title, found, text }) {
  const { html, headings, sections } = renderPage(name, text, TITLES);
  const isOperation = name.startsWith('reference/');
  files[name] = shell(title, name, headings, isOperation ? besideSamples(html) : html);
  files[`${name}.md`] = linksToFiles(text, TITLES);
  for (const section of sections) {
    const address = `/docs/${name}${section.id && `#${section.id}`}`;
    index.push([address, found, section.title, section.text.join(' ').replaceAll(/\s+/g, ' ')]);
  }
}
files['search.json'] = JSON.stringify(index);
files['llms.txt'] = listOfPages();

const folder = new URL('dist/guides/', ROOT);
await mkdir(folder, { recursive: true });
// A build that is killed here must not leave a half of it.
await writeFile(new URL('guides.part', folder), gzipSync(JSON.stringify(files), { level: 9 }));
await rename(new URL('guides.part', folder), new URL('guides.json.gz', folder));
