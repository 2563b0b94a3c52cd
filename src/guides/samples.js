/** A sample of code as HTML: in colours, with places for the reader's values. One that is a request is shown in several languages. */
import MarkdownIt from 'markdown-it';

const { escapeHtml } = new MarkdownIt().utils;

/** The server leaves out what stands between the marks of a part that is off. */
export const partOf = (name, html) => `<!--${name}-->${html}<!--/${name}-->`;

/* Colours and places. */

const GRAPHQL_KEYWORDS = /^(?:fragment|mutation|null|on|query|subscription|true|false)$/;
const KEYWORDS =
  /^(?:async|await|as|catch|class|const|continue|def|do|else|except|export|for|from|function|if|import|in|let|new|null|None|of|raise|return|throw|true|True|try|false|False|type|while|with)$/;
const STRING = String.raw`(?<quote>["'\x60])(?:\\.|(?!\k<quote>)[^\\])*\k<quote>`;
const SCRIPT = ['ts', 'mjs'];
const COMMENTED = ['sh', 'py', 'graphql'];

/** Code as HTML: strings, comments and keywords in colours, and places for the App ID, the App Secret and the address of the service. */
function colour(code, kind) {
  const comment = SCRIPT.includes(kind) ? '//.*' : COMMENTED.includes(kind) ? '(?<=^|\\s)#.*' : '(?!)';
  if (kind === 'text') return withPlaces(code);
  const keywords = kind === 'graphql' ? GRAPHQL_KEYWORDS : KEYWORDS;
  const parts = new RegExp(`(?<comment>${comment})|(?<string>${STRING})|(?<word>\\b[A-Za-z_]\\w*\\b)`, 'gm');
  let html = '';
  let end = 0;
  for (const { 0: text, index, groups } of code.matchAll(parts)) {
    html += withPlaces(code.slice(end, index));
    end = index + text.length;
    const name = groups.comment ? 'c' : groups.string ? 's' : keywords.test(text) ? 'k' : '';
    html += name ? `<span class="${name}">${withPlaces(text)}</span>` : withPlaces(text);
  }
  return withEmptyPlaces(html + withPlaces(code.slice(end)));
}

const place = (name, text) => `<var data-fill="${name}">${text}</var>`;

function withPlaces(code) {
  return escapeHtml(code)
    .replaceAll('$APP_ID', place('appId', '$APP_ID'))
    .replaceAll('$APP_SECRET', place('appSecret', '$APP_SECRET'))
    .replaceAll('http://127.0.0.1:4000', place('origin', 'http://127.0.0.1:4000'));
}

/** What stands where a program has no environment: `APP_ID = ''` of TypeScript, and `get("APP_ID", "")` of Python. */
function withEmptyPlaces(html) {
  return Object.entries({ APP_ID: 'appId', APP_SECRET: 'appSecret' }).reduce(
    (text, [name, fill]) =>
      text
        .replaceAll(new RegExp(`(?<=${name} = <span class="s">')(?=')`, 'g'), place(fill, ''))
        .replaceAll(
          new RegExp(`(?<=&quot;${name}&quot;</span>, <span class="s">&quot;)(?=&quot;)`, 'g'),
          place(fill, ''),
        ),
    html,
  );
}

/* A request in several languages. */

const GRAPHQL_URL = 'http://127.0.0.1:4000/graphql';
const START = 'curl -s -u "$APP_ID:$APP_SECRET" ';

/** The request of a curl command; null for a command with an option that is not known here. */
function readCurl(command) {
  if (!command.startsWith(START)) return null;
  const words = [...command.slice(START.length).matchAll(/'([^']*)'|\\\n|([^\s'"]+)/g)]
    .map(([, quoted, word]) => quoted ?? word)
    .filter((word) => word !== undefined);
  const request = { method: null, url: null, headers: {}, body: null };
  while (words.length > 0) {
    const word = words.shift();
    if (word === '-X') request.method = words.shift();
    else if (word === '-d') request.body = JSON.parse(words.shift());
    else if (word === '-H') {
      const [name, value] = words.shift().split(': ');
      request.headers[name] = value;
    } else if (word.startsWith('http:') && request.url === null) request.url = word;
    else return null;
  }
  request.method ??= request.body === null ? 'GET' : 'POST';
  return request;
}

/** Every language in which a sample can be shown, the one of the page first; none where there is only that one. */
export function formsOf(kind, code, variables) {
  if (kind === 'graphql') {
    if (code.includes('#')) throw new Error(`A comment would end this document in one line: ${code}`);
    const query = { text: code.trimEnd(), variables };
    const request = { method: 'POST', url: GRAPHQL_URL, headers: {}, query };
    return [
      { language: 'GraphQL', kind, code },
      { language: 'curl', kind: 'sh', code: curlOf(query) },
      ...others(request),
    ];
  }
  const request = kind === 'sh' ? readCurl(code) : null;
  return request === null ? [] : [{ language: 'curl', kind, code }, ...others(request)];
}

const others = (request) => [
  { language: 'TypeScript', kind: 'ts', code: typescriptOf(request) },
  { language: 'Python', kind: 'py', code: pythonOf(request) },
];

function curlOf({ text, variables }) {
  const body = { query: text.replaceAll(/\s+/g, ' '), ...(variables && { variables }) };
  const json = JSON.stringify(body, null, 2).replaceAll("'", String.raw`'\''`);
  return `${START}-H 'content-type: application/json' '${GRAPHQL_URL}' -d '${json}'\n`;
}

/** How a language writes values. */
const TYPESCRIPT = {
  indent: '  ',
  pad: ' ',
  key: (name) => (/^\w+$/.test(name) ? name : `'${name}'`),
  text: (value) => `'${value.replaceAll(/['\\]/g, '\\$&')}'`,
  words: { true: 'true', false: 'false', null: 'null' },
};
const PYTHON = {
  indent: '    ',
  pad: '',
  key: (name) => `"${name}"`,
  text: (value) => JSON.stringify(value),
  words: { true: 'True', false: 'False', null: 'None' },
};
const LINE = 90;

/** The parts in one line if there is room, else one a line. */
function inBrackets(language, [open, close], parts, indent, pad = language.pad) {
  const flat = parts.map((write) => write('')).join(', ');
  if (!flat.includes('\n') && indent.length + flat.length < LINE - 20) return `${open}${pad}${flat}${pad}${close}`;
  const inner = indent + language.indent;
  return `${open}\n${parts.map((write) => `${inner}${write(inner)},\n`).join('')}${indent}${close}`;
}

function write(language, value, indent = '') {
  if (typeof value === 'string') return language.text(value);
  if (Array.isArray(value)) {
    const items = value.map((item) => (inner) => write(language, item, inner));
    return inBrackets(language, '[]', items, indent, '');
  }
  if (typeof value !== 'object' || value === null) return language.words[value] ?? String(value);
  const fields = Object.entries(value).map(
    ([name, part]) =>
      (inner) =>
        `${language.key(name)}: ${write(language, part, inner)}`,
  );
  return inBrackets(language, '{}', fields, indent);
}

/** A key is for one change: a program makes a new one for each. */
const isKey = (name) => name === 'Idempotency-Key';

function typescriptOf({ method, url, headers, body, query }) {
  const own = Object.entries({ ...headers, ...(query && { 'content-type': 'application/json' }) });
  const fields = [
    () => "'service-app-id': APP_ID",
    () => "'service-app-secret': APP_SECRET",
    ...own.map(
      ([name, value]) =>
        () =>
          `'${name}': ${isKey(name) ? 'crypto.randomUUID()' : `'${value}'`}`,
    ),
  ];
  const sent = query ? `{ query${query.variables ? ', variables' : ''} }` : null;
  const options = [
    ...(method === 'GET' ? [] : [`  method: '${method}',`]),
    `  headers: ${inBrackets(TYPESCRIPT, '{}', fields, '  ')},`,
    ...(sent || body ? [`  body: JSON.stringify(${sent ?? write(TYPESCRIPT, body, '  ')}),`] : []),
  ];
  return [
    "const { APP_ID = '', APP_SECRET = '' } = process.env;",
    ...(query ? ['', `const query = \`\n${indented(query.text)}\n\`;`] : []),
    ...(query?.variables ? [`const variables = ${write(TYPESCRIPT, query.variables)};`] : []),
    '',
    `const response = await fetch('${url}', {`,
    ...options,
    '});',
    'console.log(await response.json());',
    '',
  ].join('\n');
}

function pythonOf({ method, url, headers, body, query }) {
  const own = Object.entries(headers).filter(([name]) => name.toLowerCase() !== 'content-type');
  const hasKey = own.some(([name]) => isKey(name));
  const fields = own.map(
    ([name, value]) =>
      () =>
        `"${name}": ${isKey(name) ? 'str(uuid.uuid4())' : `"${value}"`}`,
  );
  const sent = query ? `{"query": query${query.variables ? ', "variables": variables' : ''}}` : null;
  return [
    '# pip install requests',
    'import os',
    ...(hasKey ? ['import uuid'] : []),
    '',
    'import requests',
    '',
    'APP_ID = os.environ.get("APP_ID", "")',
    'APP_SECRET = os.environ.get("APP_SECRET", "")',
    '',
    ...(query ? [`query = """\n${indented(query.text)}\n"""`] : []),
    ...(query?.variables ? [`variables = ${write(PYTHON, query.variables)}`] : []),
    ...(query ? [''] : []),
    `response = requests.${method.toLowerCase()}(`,
    `    "${url}",`,
    '    auth=(APP_ID, APP_SECRET),',
    ...(fields.length > 0 ? [`    headers=${inBrackets(PYTHON, '{}', fields, '    ')},`] : []),
    ...(sent || body ? [`    json=${sent ?? write(PYTHON, body, '    ')},`] : []),
    '    timeout=30,',
    ')',
    'print(response.json())',
    '',
  ].join('\n');
}

const indented = (text) => text.replaceAll(/^(?=.)/gm, '  ');

/* The figure. */

const codeOf = (code, kind, language) =>
  `<pre tabindex="0"${language ? ` data-language="${language}"` : ''}><code>${colour(code, kind)}</code></pre>`;

/**
 * A sample as it stands on a page. Its languages are a group of radio buttons, so that they work by keyboard and without a script; `number`
 * tells the groups of a page apart. `below` is HTML that belongs to the first language alone.
 */
export function figureOf({ kind, code, caption, forms, link = '', below = '', number }) {
  const name = caption === null ? '' : `<span>${escapeHtml(caption)}</span>`;
  if (forms.length === 0) return `<figure><figcaption>${name}${link}</figcaption>${codeOf(code, kind)}</figure>\n`;
  const radios = forms.map(
    ({ language }, at) =>
      `<label><input type="radio" name="language-${number}" value="${language}"${at === 0 ? ' checked' : ''}>${language}</label>`,
  );
  const choice = `<div role="radiogroup" aria-label="Language">${radios.join('')}</div>`;
  const panels = forms.map((form, at) => codeOf(form.code, form.kind, form.language) + (at === 0 ? below : ''));
  return `<figure class="languages"><figcaption>${name}${choice}${link}</figcaption>${panels.join('')}</figure>\n`;
}

/** The variables of a sample of GraphQL, below it. */
export const variablesOf = (code) =>
  `<div data-language="GraphQL"><p class="below">Variables</p>${codeOf(code, 'json')}</div>`;
