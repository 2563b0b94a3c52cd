/** Makes the REST reference of the OpenAPI document, as Markdown: a page of what all operations share, and a page of each operation. */
import { anchorOf } from './markdown.js';

/** The parameters in the sample of an operation, beside those that it needs. */
const SAMPLED = {
  listUsers: ['limit'],
  countUsers: ['login_method'],
  searchUsers: ['email'],
  getUser: [],
  removeUser: ['Idempotency-Key'],
  verifyWallet: [],
  verifyWallets: [],
  getUsers: [],
  listChanges: ['limit'],
};
const BASE = 'http://127.0.0.1:4000';

/** The pages, each with its name, its title, what it is about, and its text. */
export function referencePages(document) {
  const operations = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ ...operation, path, method: method.toUpperCase() })),
  );
  const pages = operations.map((operation) => ({
    name: `reference/${operation.operationId}`,
    title: operation.summary,
    what: `\`${routeOf(operation)}\``,
    text: operationPage(operation, document, parametersOfAll(operations)),
  }));
  const first = {
    name: 'reference',
    title: 'Overview',
    what: 'Every route; credentials, failures and headers, which all routes share.',
    text: overviewPage(operations, document),
  };
  return [first, ...pages];
}

const routeOf = ({ method, path }) => `${method} ${path}`;

/* The page of what all share. */

function overviewPage(operations, { info, components }) {
  const rows = operations.map((operation) => [
    `[${operation.summary}](/docs/reference/${operation.operationId})`,
    `\`${routeOf(operation)}\``,
  ]);
  const failures = new Map(
    operations.flatMap(({ responses }) =>
      Object.entries(responses)
        .filter(([status]) => status !== '200')
        .map(([status, { $ref }]) => [$ref, [statusOf(status), resolve({ $ref }, components).description]]),
    ),
  );
  const headers = Object.entries(components.headers).map(([name, { description, example }]) => [
    `\`${name}\``,
    `${description} Example: \`${example}\``,
  ]);
  const shared = parametersOfAll(operations);
  return blocks(
    '# REST reference',
    info.description,
    table(['operation', 'route'], rows),
    '## Headers of every request',
    'Beside those of the credentials:',
    parameterTable(shared),
    '## Failures',
    'Every failure has the body `{"error": "…"}`, a sentence that names what is wrong, and the code of it in the header `Userdir-Error-Code`. [Errors](errors.md) says what each code means.',
    table(
      ['status', 'when'],
      [...failures.values()].sort(([a], [b]) => a.localeCompare(b)),
    ),
    '## Headers of answers',
    table(['header', 'what it says'], headers),
  );
}

/** The parameters that every operation has. Their own pages leave them out. */
function parametersOfAll(operations) {
  const names = operations.map(({ parameters }) => new Set(parameters.map(({ name }) => name)));
  return operations[0].parameters.filter(({ name }) => names.every((each) => each.has(name)));
}

const statusOf = (status) => (status === 'default' ? 'other' : `\`${status}\``);

/* The page of an operation. */

function operationPage(operation, { components }, shared) {
  const { summary, description, requestBody, responses, tags, operationId } = operation;
  const answer = responses[200];
  const [media] = Object.values(answer.content);
  const body = requestBody && Object.values(requestBody.content)[0];
  const examples = media.examples ? Object.values(media.examples).map(({ value }) => value) : [media.example];
  const isOwn = ({ name }) => !shared.some((parameter) => parameter.name === name);
  const parameters = operation.parameters.filter(isOwn);
  const places = { path: 'In the path', query: 'In the query', header: 'Headers' };
  return blocks(
    `# ${summary}`,
    `\`${routeOf(operation)}\``,
    description,
    `[Try it](/docs/try#/${tags[0]}/${operationId}) in the browser.`,
    '<!-- samples -->',
    fence('sh', curlOf(operation, body?.example)),
    ...examples.map((example, at) => fence(`json ${at === 0 ? 'Answer' : 'Or'}`, JSON.stringify(example, null, 2))),
    '<!-- text -->',
    ...Object.entries(places).flatMap(([place, title]) => {
      const here = parameters.filter((parameter) => parameter.in === place);
      return here.length === 0 ? [] : [`## ${title}`, parameterTable(here)];
    }),
    ...(body ? ['## Body', fieldTable(body.schema, components), ...parts(body.schema, components)] : []),
    '## Answer',
    answer.description,
    fieldTable(media.schema, components),
    ...parts(media.schema, components),
    '## Failures',
    table(['status', 'when'], ownFailures(responses, components)),
    'Headers, and failures that every route has, stand in the [overview](/docs/reference#failures).',
  );
}

/** Those that not every route has. */
function ownFailures(responses, components) {
  return Object.entries(responses)
    .filter(([status]) => /^4(?!29)/.test(status))
    .map(([status, response]) => [statusOf(status), resolve(response, components).description]);
}

function curlOf({ operationId, method, path, parameters }, body) {
  const sampled = SAMPLED[operationId];
  const unknown = sampled?.filter((name) => !parameters.some((parameter) => parameter.name === name));
  if (unknown?.length !== 0) throw new Error(`SAMPLED of reference.js does not fit ${operationId}: ${unknown}`);
  const used = parameters.filter(({ name, required }) => required || sampled.includes(name));
  const at = (place) => used.filter((parameter) => parameter.in === place);
  const query = at('query').map(({ name, example }) => `${name}=${example}`);
  const filled = at('path').reduce((text, { name, example }) => text.replace(`{${name}}`, example), path);
  const url = `'${BASE}${filled}${query.length > 0 ? `?${query.join('&')}` : ''}'`;
  const options = [
    'curl -s -u "$APP_ID:$APP_SECRET"',
    ...(method === 'DELETE' ? ['-X DELETE'] : []),
    ...at('header').map(({ name, example }) => `-H '${name}: ${example}'`),
    ...(body ? ["-H 'content-type: application/json'"] : []),
  ];
  return body
    ? `${options.join(' ')} \\\n  ${url} -d '${JSON.stringify(body, null, 2)}'`
    : `${options.join(' ')} \\\n  ${url}`;
}

/* Tables of fields. */

function parameterTable(parameters) {
  const rows = parameters.map(({ name, required, description, schema, example }) => [
    `\`${name}\``,
    `${typeOf(schema)}${required ? '' : ', optional'}`,
    `${description} Example: \`${example}\``,
  ]);
  return table(['name', 'type', 'what it means'], rows);
}

function fieldTable(schema, components) {
  const rows = fieldsOf(schema, components).map(({ path, field, isRequired }) => [
    `\`${path}\``,
    `${typeOf(field)}${isRequired ? '' : ', optional'}`,
    field.description ?? '',
  ]);
  return table(['field', 'type', 'what it is'], rows);
}

/** The fields of an object, with those of the objects in it that have no name of their own. */
function fieldsOf(schema, components, before = '') {
  const { properties, required = [] } = resolve(schema, components);
  return Object.entries(properties).flatMap(([name, field]) => {
    const path = before + name;
    const isList = field.type === 'array';
    const inner = isList ? field.items : field;
    const own = { path, field, isRequired: required.includes(name) };
    const below = inner.properties ? fieldsOf(inner, components, `${path}${isList ? '[]' : ''}.`) : [];
    return below.length > 0 && !isList && field.description === undefined ? below : [own, ...below];
  });
}

/** A section of each object with a name that is somewhere in the schema. */
function parts(schema, components) {
  return [...namesIn(schema, components)].flatMap((name) => {
    const part = components.schemas[name];
    return [`### ${name}`, part.description, fieldTable(part, components)];
  });
}

function namesIn(schema, components, names = new Set()) {
  if (schema === null || typeof schema !== 'object') return names;
  const name = nameOf(schema);
  if (name !== null && !names.has(name)) {
    names.add(name);
    namesIn(components.schemas[name], components, names);
  }
  for (const part of Object.values(schema)) namesIn(part, components, names);
  return names;
}

const nameOf = ({ $ref }) => ($ref?.startsWith('#/components/schemas/') ? $ref.split('/').at(-1) : null);

/** The type of a value, in words. */
function typeOf(schema) {
  const { type, anyOf, items, enum: values, const: constant, format, minimum, maximum, default: byDefault } = schema;
  const name = nameOf(schema);
  if (name !== null) return `[${name}](#${anchorOf(name)})`;
  if (constant !== undefined) return `\`${constant}\``;
  const list = anyOf?.find((each) => each.type === 'array');
  // A parameter that is a text of several, or is repeated.
  if (list)
    return `several, separated by commas: ${list.items.enum ? typeOf(list.items) : `${typeOf(list.items)} each`}`;
  if (anyOf) return inWords(anyOf.map(typeOf));
  if (Array.isArray(type)) return inWords(type);
  if (values) return inWords(values.map((value) => `\`${value}\``));
  if (type === 'array') return items.properties ? 'a list of objects' : `a list of ${typeOf(items)}`;
  const range = maximum !== undefined ? `, ${minimum} to ${maximum}` : minimum > 0 ? `, from ${minimum}` : '';
  const kind = format === 'int64' ? 'integer of 64 bits' : (format ?? type);
  return `${kind}${range}${byDefault === undefined ? '' : `, by default ${byDefault}`}`;
}

const inWords = (words) => words.join(', ').replace(/, ([^,]*)$/, ' or $1');

function resolve(value, components) {
  if (value.$ref === undefined) return value;
  const [, , kind, name] = value.$ref.split('/');
  return components[kind][name];
}

/* Markdown. */

const blocks = (...parts) => `${parts.filter(Boolean).join('\n\n')}\n`;
const fence = (info, code) => `\`\`\`${info}\n${code}\n\`\`\``;

function table(titles, rows) {
  const line = (cells) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(titles), `|${'---|'.repeat(titles.length)}`, ...rows.map(line)].join('\n');
}
