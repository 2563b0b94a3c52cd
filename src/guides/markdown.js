/** Makes a page of HTML of a page of Markdown, with its headings and its sections for the search. */
import { posix } from 'node:path';
import MarkdownIt from 'markdown-it';
import { isErrorCode } from '../../dist/errors.js';
import { figureOf, formsOf, partOf, variablesOf } from './samples.js';

const md = new MarkdownIt({ html: true });
export const { escapeHtml } = md.utils;

/** Where the samples of a page begin that stand beside its text, and where the text goes on. */
const PLACES = {
  '<!-- samples -->': '</div>\n<div class="samples">\n',
  '<!-- text -->': '</div>\n<div>\n',
};
// Pictures and other comments are for readers of the files.
md.renderer.rules.html_block = (tokens, at) => PLACES[tokens[at].content.trim()] ?? '';
md.renderer.rules.html_inline = () => '';

/** The anchor that GitHub gives a heading, too. */
export function anchorOf(title) {
  return title
    .toLowerCase()
    .replaceAll(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');
}

/** Words on two lines stay apart; what is bold or a link has no blanks around it. */
const textOf = ({ children }) => children.map(({ type, content }) => (type.endsWith('break') ? ' ' : content)).join('');

/* Routes. */

const ROUTE = /^([A-Z]{3,7})(?= \/)/;

/** A route has its method in the colour of what it does. */
md.renderer.rules.code_inline = (tokens, at) => {
  const code = escapeHtml(tokens[at].content);
  return `<code>${code.replace(ROUTE, (method) => `<b data-method="${method}">${method}</b>`)}</code>`;
};

/* Samples. */

const LANGUAGES = { sh: 'Shell', graphql: 'GraphQL', json: 'JSON', text: 'Output' };

md.renderer.rules.fence = (tokens, at, _options, page) => {
  const { content: code, info } = tokens[at];
  const [kind, ...words] = info.split(' ');
  const file = words.join(' ') || null;
  const { info: nextInfo, content: next } = tokens[at + 1] ?? {};
  const variables = nextInfo === VARIABLES ? next : null;
  // They stand below their document.
  if (info === VARIABLES && tokens[at - 1]?.info.startsWith('graphql')) return '';
  const forms = formsOf(kind, code, variables === null ? null : JSON.parse(variables));
  page.samples += 1;
  return figureOf({
    kind,
    code,
    caption: forms.length > 0 ? file : (file ?? LANGUAGES[kind] ?? kind),
    forms,
    link: kind === 'graphql' ? tryLink(code, variables) : '',
    below: variables === null ? '' : variablesOf(variables),
    number: page.samples,
  });
};

const VARIABLES = 'json variables';

/** Opens a sample with its variables. */
function tryLink(query, variables) {
  const parameters = new URLSearchParams({ query, variables: variables ?? '' });
  return partOf('graphiql', `<a href="/graphql?${escapeHtml(`${parameters}`)}">Open in GraphiQL</a>`);
}

/* Links. */

/** The folders of docs/ with programs, which are one page. */
export const PROGRAMS = ['examples', 'moving'];

/** Where a link of a page of docs/ leads among the guides, whose names are `titles`; null where it leaves them. */
function addressOf(href, titles) {
  if (/^(https?:|#|\/)/.test(href)) return href;
  const [path, anchor] = href.split('#');
  const target = posix.normalize(path);
  const [folder, program] = target.split('/');
  if (program !== undefined && PROGRAMS.includes(folder)) return `/docs/examples#${anchorOf(program)}`;
  const name = target.replace(/\.md$/, '');
  if (target === '../schema.graphql') return '/schema.graphql';
  if (name === 'README' || name === '../README') return '/docs';
  return titles.has(name) ? `/docs/${name}${anchor ? `#${anchor}` : ''}` : null;
}

/** A link that leaves the guides, to a page for operators or to a file of the project, becomes text: that page is not served. */
function directLinks(inline, titles) {
  const tags = [];
  for (const token of inline.children) {
    if (token.type === 'link_open') {
      const href = token.attrGet('href');
      const address = addressOf(href, titles);
      if (address !== null) token.attrSet('href', address);
      else {
        token.tag = 'span';
        token.attrs = [];
      }
      tags.push(token.tag);
    } else if (token.type === 'link_close') token.tag = tags.pop();
  }
}

/** The text of a page, with links to the texts of others. What is not served stays a name. */
export function linksToFiles(text, titles) {
  const shown = text.replaceAll(/<!--.*?-->\s*/gs, '');
  return shown.replaceAll(/\[([^[\]]{0,200})\]\(([^()\s]{1,200})\)/g, (link, words, href) => {
    const address = addressOf(href, titles);
    if (address === null) return words;
    const [, name] = /^\/docs\/([^#]+)/.exec(address) ?? [];
    return titles.has(name) ? `[${words}](${address.replace(/(?=#|$)/, '.md')})` : link.replace(href, address);
  });
}

/* Pages. */

/** A page: its HTML, its second headings, and its sections for the search. `titles` has the titles of all pages by their names. */
export function renderPage(name, text, titles) {
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
      directLinks(token, titles);
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
  return { html: md.renderer.render(tokens, md.options, { samples: 0 }), headings, sections };
}

md.renderer.rules.heading_close = (tokens, at) => {
  const id = tokens[at - 2].attrGet('id');
  const { tag } = tokens[at];
  if (tag === 'h1') return '</h1>\n';
  return ` <a class="anchor" href="#${id}" aria-hidden="true" tabindex="-1">#</a></${tag}>\n`;
};
