/** Makes dist/guides/guides.json.gz: the pages of docs/ for callers as HTML, the index of their search, their style and their script. */
import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { posix } from 'node:path';
import { gzipSync } from 'node:zlib';
import MarkdownIt from 'markdown-it';
import { VERSION } from '../../dist/config/build.js';
import { COMMAND, isErrorCode } from '../../dist/errors.js';

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
    ['examples', 'Examples', 'Small programs to begin with, in TypeScript, JavaScript and Python.'],
  ],
  'To look up': [
    ['errors', 'Errors', 'What each code means, what to do, and whether to try again.'],
    ['limits', 'Limits', 'How much, how long, how often; and what a GraphQL operation costs.'],
    ['spec', 'Contract of REST', 'The specification of the six routes, word for word.'],
    ['compatibility', 'Compatibility', 'What may change in which version.'],
    ['glossary', 'Glossary', 'What words mean in these pages.'],
  ],
};
const PAGES = Object.values(GROUPS).flat();
const TITLES = new Map(PAGES);

const md = new MarkdownIt({ html: true });
const { escapeHtml } = md.utils;
// Pictures and comments are for readers of the files.
md.renderer.rules.html_block = () => '';
md.renderer.rules.html_inline = () => '';

/** The anchor that GitHub gives a heading, too. */
function anchorOf(title) {
  return title
    .toLowerCase()
    .replaceAll(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');
}

const textOf = ({ children }) => children.map(({ content }) => content || ' ').join('');

/* Code. */

const KEYWORDS =
  /^(?:async|await|as|catch|class|const|continue|def|do|else|except|export|for|from|fragment|function|if|import|in|let|mutation|new|null|None|of|on|query|raise|return|subscription|throw|true|True|try|false|False|type|while|with)$/;
const STRING = String.raw`(?<quote>["'\x60])(?:\\.|(?!\k<quote>)[^\\])*\k<quote>`;
const SCRIPT = ['ts', 'mjs'];
const COMMENTED = ['sh', 'py', 'graphql'];

/** Code as HTML: strings, comments and keywords in colours, and places for the App ID, the App Secret and the address of the service. */
function colour(code, kind) {
  const comment = SCRIPT.includes(kind) ? '//.*' : COMMENTED.includes(kind) ? '(?<=^|\\s)#.*' : '(?!)';
  if (kind === 'text') return withPlaces(code);
  const parts = new RegExp(`(?<comment>${comment})|(?<string>${STRING})|(?<word>\\b[A-Za-z_]\\w*\\b)`, 'gm');
  let html = '';
  let end = 0;
  for (const { 0: text, index, groups } of code.matchAll(parts)) {
    html += withPlaces(code.slice(end, index));
    end = index + text.length;
    const name = groups.comment ? 'c' : groups.string ? 's' : KEYWORDS.test(text) ? 'k' : '';
    html += name ? `<span class="${name}">${withPlaces(text)}</span>` : withPlaces(text);
  }
  return (html + withPlaces(code.slice(end)))
    .replaceAll(/(?<=APP_ID = <span class="s">')(?=')/g, place('appId', ''))
    .replaceAll(/(?<=APP_SECRET = <span class="s">')(?=')/g, place('appSecret', ''));
}

const place = (name, text) => `<var data-fill="${name}">${text}</var>`;

function withPlaces(code) {
  return escapeHtml(code)
    .replaceAll('$APP_ID', place('appId', '$APP_ID'))
    .replaceAll('$APP_SECRET', place('appSecret', '$APP_SECRET'))
    .replaceAll('http://127.0.0.1:4000', place('origin', 'http://127.0.0.1:4000'));
}

const LANGUAGES = { sh: 'Shell', graphql: 'GraphQL', json: 'JSON', text: 'Output' };

md.renderer.rules.fence = (tokens, at) => {
  const { content, info } = tokens[at];
  const [kind, ...words] = info.split(' ');
  const file = words.join(' ') || undefined;
  const caption = file === 'variables' ? 'Variables' : (file ?? LANGUAGES[kind] ?? kind);
  const name = escapeHtml(caption);
  return `<figure><figcaption>${name}${kind === 'graphql' ? tryLink(content, tokens[at + 1]) : ''}</figcaption><pre tabindex="0"><code>${colour(content, kind)}</code></pre></figure>\n`;
};

/** Opens a sample with the variables that follow it. */
function tryLink(query, next) {
  const variables = next?.info === 'json variables' ? next.content : '';
  return partOf(
    'graphiql',
    `<a href="/graphql?${escapeHtml(`${new URLSearchParams({ query, variables })}`)}">Open in GraphiQL</a>`,
  );
}

/* Links. */

/** Where a link of a page of docs/ leads among the guides; null where it leaves them. */
function addressOf(href) {
  if (/^(https?:|#)/.test(href)) return href;
  const [path, anchor] = href.split('#');
  const target = posix.normalize(path);
  const example = /^examples\/(.+)$/.exec(target);
  if (example) return `/docs/examples#${anchorOf(example[1])}`;
  const name = target.replace(/\.md$/, '');
  if (target === '../schema.graphql') return '/schema.graphql';
  if (name === 'README' || name === '../README') return '/docs';
  return TITLES.has(name) ? `/docs/${name}${anchor ? `#${anchor}` : ''}` : null;
}

/** A link that leaves the guides, to a page for operators or to a file of the project, becomes text: that page is not served. */
function directLinks(inline) {
  const tags = [];
  for (const token of inline.children) {
    if (token.type === 'link_open') {
      const href = token.attrGet('href');
      const address = addressOf(href);
      if (address !== null) token.attrSet('href', address);
      else {
        token.tag = 'span';
        token.attrs = [];
      }
      tags.push(token.tag);
    } else if (token.type === 'link_close') token.tag = tags.pop();
  }
}

/* Pages. */

/** A page: its HTML, its second headings, and its sections for the search. */
function renderPage(name, text) {
  const tokens = md.parse(text, {});
  const headings = [];
  const sections = [];
  const taken = new Map();
  let columns = [];
  let cell = 0;
  let row = null;
  /** The text that is the title of its section. */
  let titled = null;
  for (const [at, token] of tokens.entries()) {
    const inline = tokens[at + 1];
    if (token.type === 'inline') {
      directLinks(token);
      if (token !== titled) sections.at(-1)?.text.push(textOf(token));
    } else if (token.type === 'fence') sections.at(-1)?.text.push(token.content);
    else if (token.type === 'heading_open') {
      titled = inline;
      const title = textOf(inline);
      const anchor = anchorOf(title);
      const times = taken.get(anchor) ?? 0;
      taken.set(anchor, times + 1);
      const id = times === 0 ? anchor : `${anchor}-${times}`;
      token.attrSet('id', id);
      if (token.tag === 'h2') headings.push({ id, title });
      sections.push({ title: token.tag === 'h1' ? '' : title, id: token.tag === 'h1' ? '' : id, text: [] });
    } else if (token.type === 'table_open') columns = [];
    else if (token.type === 'th_open') columns.push(textOf(inline));
    else if (token.type === 'tr_open') {
      cell = 0;
      row = token;
    } else if (token.type === 'td_open') {
      if (columns.length > 2 && cell > 0) token.attrSet('data-label', columns[cell].replace(/\w$/, '$&:'));
      cell += 1;
      const code = textOf(inline);
      if (name === 'errors' && cell === 1 && isErrorCode(code)) {
        row.attrSet('id', code);
        titled = inline;
        sections.push({ title: code, id: code, text: [] });
      }
    } else if (token.type === 'table_close') {
      const open = tokens.slice(0, at).findLast(({ type }) => type === 'table_open');
      if (columns.length > 2) open.attrSet('class', 'wide');
    }
  }
  return { html: md.renderer.render(tokens, md.options, {}), headings, sections };
}

md.renderer.rules.heading_close = (tokens, at) => {
  const id = tokens[at - 2].attrGet('id');
  const { tag } = tokens[at];
  if (tag === 'h1') return '</h1>\n';
  return ` <a class="anchor" href="#${id}" aria-hidden="true" tabindex="-1">#</a></${tag}>\n`;
};

/** docs/examples as a page. */
async function examplesPage() {
  const files = await readdir(new URL('docs/examples/', ROOT));
  const parts = files.sort().map(async (file) => {
    const code = await readText(`docs/examples/${file}`);
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

/* What is around a page. The server leaves out what stands between the marks of a part that is off. */

const partOf = (name, html) => `<!--${name}-->${html}<!--/${name}-->`;

function navigation(current, headings) {
  const link = ([name, title]) => {
    if (name !== current) return `<li><a href="/docs/${name}">${title}</a></li>`;
    const below = headings.map((heading) => `<li><a href="#${heading.id}">${escapeHtml(heading.title)}</a></li>`);
    return `<li><a href="/docs/${name}" aria-current="page">${title}</a><ul>${below.join('')}</ul></li>`;
  };
  const groups = Object.entries(GROUPS).map(
    ([title, pages]) => `<h2>${title}</h2><ul>${pages.map(link).join('')}</ul>`,
  );
  return groups.join('');
}

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
<input type="search" id="ui-search" placeholder="Search" aria-label="Search the documentation" aria-controls="ui-found" autocomplete="off" spellcheck="false" maxlength="100">
<div id="ui-found" hidden><p role="status"></p><ul></ul></div>
</search>
<nav aria-label="Try it"><a href="/docs/reference">REST reference</a>${partOf('graphiql', '<a href="/graphql">GraphiQL</a>')}</nav>
</header>
<div class="frame">
<nav id="ui-pages" aria-label="Pages">${navigation(name, headings)}</nav>
<main id="ui-content">
${main}
<footer>userdir ${VERSION}. The project has these pages in its folder <code>docs</code>, with those for operators.</footer>
</main>
</div>
</body>
</html>
`;
}

const FIRST_CALL = `
It needs the App ID and the App Secret of a project; \`${COMMAND} project create --name NAME\` creates one.

\`\`\`sh REST: the newest two users
curl -s -u "$APP_ID:$APP_SECRET" 'http://127.0.0.1:4000/server/users?limit=2'
\`\`\`

\`\`\`sh GraphQL: the same, and how many there are
curl -s -u "$APP_ID:$APP_SECRET" -H 'content-type: application/json' \\
  -d '{"query": "{ users(first: 2) { totalCount nodes { id authValue } } }"}' 'http://127.0.0.1:4000/graphql'
\`\`\``;

const card = ([address, title, what]) => `<li><a href="${address}">${title}</a><span>${what}</span></li>`;

function startPage() {
  const groups = Object.entries(GROUPS).map(
    ([title, pages]) =>
      `<h2>${title}</h2>\n<ul class="cards">${pages.map(([name, ...rest]) => card([`/docs/${name}`, ...rest])).join('')}</ul>`,
  );
  const reference = card(['/docs/reference', 'REST reference', 'All routes, which you can try on the page.']);
  const graphiql = card(['/graphql', 'GraphiQL', 'Write and run queries, with the description of every field.']);
  const openapi = card(['/openapi.json', 'OpenAPI document', 'For generators of clients and for tools.']);
  const schema = card(['/schema.graphql', 'GraphQL schema', 'The same for GraphQL.']);
  const dashboard = card(['/dashboard', 'Dashboard', 'For operators. It needs a link to sign in.']);
  return `<h1>The users of many projects, over GraphQL and REST</h1>
<p>For backends that call userdir over GraphQL or REST: both answer the same questions about the same users, with the App ID and the App Secret of a project, which an operator gives you. Only GraphQL records logins.</p>
<h2>The first call</h2>
${md.render(FIRST_CALL)}<h2>Try it</h2>
<ul class="cards">${reference}${partOf('graphiql', graphiql)}${openapi}${schema}${partOf('dashboard', dashboard)}</ul>
${groups.join('\n')}
<p>For monitors: <a href="/livez">/livez</a> while the process lives, <a href="/readyz">/readyz</a> while it can answer.</p>`;
}

const MISSING =
  '<h1>There is no such page</h1>\n<p>Search for it above, or begin at the <a href="/docs">start of the documentation</a>.</p>';

/** The text of a page, with links to the texts of others. What is not served stays a name. */
function linksToFiles(text) {
  const shown = text.replaceAll(/<!--.*?-->\s*/gs, '');
  return shown.replaceAll(/\[([^[\]]{0,200})\]\(([^()\s]{1,200})\)/g, (link, words, href) => {
    const address = addressOf(href);
    if (address === null) return words;
    return /^\/docs\/\w/.test(address)
      ? `[${words}](${address.replace(/(?=#|$)/, '.md')})`
      : link.replace(href, address);
  });
}

/** As llmstxt.org describes it: what the service is, and its pages as Markdown. */
function listOfPages() {
  const groups = Object.entries(GROUPS).map(
    ([title, pages]) =>
      `## ${title}\n\n${pages.map(([name, page, what]) => `- [${page}](/docs/${name}.md): ${what}`).join('\n')}`,
  );
  const documents =
    '## For programs\n\n- [GraphQL schema](/schema.graphql): every type, field and argument, with descriptions.\n- [OpenAPI document](/openapi.json): the REST routes.';
  return `# userdir\n\n> The users of many projects, over GraphQL and REST, for backends. Each request carries the App ID and the App Secret of a project.\n\n${[...groups, documents].join('\n\n')}\n`;
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
for (const [name, title] of PAGES) {
  const text = name === 'examples' ? await examplesPage() : await readText(`docs/${name}.md`);
  const { html, headings, sections } = renderPage(name, text);
  files[name] = shell(title, name, headings, html);
  files[`${name}.md`] = linksToFiles(text);
  for (const section of sections) {
    const address = `/docs/${name}${section.id && `#${section.id}`}`;
    index.push([address, title, section.title, section.text.join(' ').replaceAll(/\s+/g, ' ')]);
  }
}
files['search.json'] = JSON.stringify(index);
files['llms.txt'] = listOfPages();

const folder = new URL('dist/guides/', ROOT);
await mkdir(folder, { recursive: true });
// A build that is killed here must not leave a half of it.
await writeFile(new URL('guides.part', folder), gzipSync(JSON.stringify(files), { level: 9 }));
await rename(new URL('guides.part', folder), new URL('guides.json.gz', folder));
