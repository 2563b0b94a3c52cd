import {
  buildSchema,
  DangerousChangeType,
  type DefinitionNode,
  findBreakingChanges,
  findDangerousChanges,
  parse,
  print,
  validate,
} from 'graphql';
import type { Json } from './app.js';

/** What a version breaks for those who use the version before it, as docs/compatibility.md promises it: a sentence each. */

/** Compares two schemas as SDL. A gateway also relies on what is said of a type, such as its `@key`. */
export function breaksOfGraphql(before: string, after: string): string[] {
  const [old, next] = [buildSchema(before, { assumeValidSDL: true }), buildSchema(after, { assumeValidSDL: true })];
  const defaults = findDangerousChanges(old, next).filter(
    ({ type }) => type === DangerousChangeType.ARG_DEFAULT_VALUE_CHANGE,
  );
  const kept = directivesOf(after);
  return [
    ...[...findBreakingChanges(old, next), ...defaults].map(({ description }) => description),
    ...directivesOf(before).flatMap((each) => (kept.includes(each) ? [] : [`${each} was removed.`])),
  ];
}

function directivesOf(sdl: string): string[] {
  const of = (node: DefinitionNode) =>
    'name' in node && node.name && 'directives' in node
      ? (node.directives ?? []).map((directive) => `${node.name?.value} ${print(directive)}`)
      : [];
  return parse(sdl).definitions.flatMap(of);
}

/** Documents of a released client, which a later service must answer. */
export function breaksOfDocuments(documents: Record<string, string>, sdl: string): string[] {
  const schema = buildSchema(sdl);
  return Object.entries(documents).flatMap(([name, document]) =>
    validate(schema, parse(document)).map(({ message }) => `client, ${name}: ${message}`),
  );
}

/** Compares lists of names, such as those of settings. */
export function breaksOfNames(before: Record<string, string[]>, after: Record<string, string[]>): string[] {
  return Object.entries(before).flatMap(([kind, names]) =>
    names.filter((name) => !after[kind]?.includes(name)).map((name) => `${kind}: ${name} was removed.`),
  );
}

/** Compares two OpenAPI documents, in the parts of OpenAPI that ours has. A request may not be narrowed, an answer may not be widened. */
export function breaksOfOpenApi(before: Json, after: Json): string[] {
  const [old, next] = [before, after].map((document) => inlined(document.paths, document));
  const operations = Object.entries<Json>(old).flatMap(([path, item]) =>
    Object.entries<Json>(item).map(([method, operation]) => ({ path, method, operation })),
  );
  return operations.flatMap(({ path, method, operation }) => {
    const at = `${method.toUpperCase()} ${path}`;
    const now = next[path]?.[method];
    return now === undefined ? [`${at} was removed.`] : [...ofOperation(at, operation, now)];
  });
}

/** A part of a document with what its references lead to. */
function inlined(value: Json, document: Json): Json {
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map((each) => inlined(each, document));
  if (typeof value.$ref === 'string') {
    const target = value.$ref.split('/').slice(1);
    return inlined(
      target.reduce((at: Json, name: string) => at[name], document),
      document,
    );
  }
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, inlined(each, document)]));
}

type Breaks = Generator<string, void>;
type Side = 'request' | 'answer';

function* ofOperation(at: string, before: Json, after: Json): Breaks {
  yield* ofParameters(at, before.parameters ?? [], after.parameters ?? []);
  if (after.requestBody?.required && !before.requestBody?.required) yield `${at}: the body became required.`;
  yield* ofContent(`${at}, body`, before.requestBody, after.requestBody, 'request');
  for (const [status, answer] of Object.entries<Json>(before.responses)) {
    const now = after.responses[status];
    if (now === undefined) yield `${at}: the answer ${status} was removed.`;
    else yield* ofAnswer(`${at}, ${status}`, answer, now);
  }
}

function* ofParameters(at: string, before: Json[], after: Json[]): Breaks {
  const nameOf = (each: Json) => (each.in === 'header' ? each.name.toLowerCase() : each.name);
  const find = (list: Json[], wanted: Json) =>
    list.find((each) => each.in === wanted.in && nameOf(each) === nameOf(wanted));
  for (const parameter of before) {
    const now = find(after, parameter);
    if (now === undefined) yield `${at}: the parameter ${parameter.name} was removed.`;
    else yield* ofSchema(`${at}, parameter ${parameter.name}`, parameter.schema, now.schema, 'request');
  }
  for (const parameter of after) {
    if (parameter.required && !find(before, parameter)?.required)
      yield `${at}: the parameter ${parameter.name} became required.`;
  }
}

function* ofAnswer(at: string, before: Json, after: Json): Breaks {
  for (const [name, header] of Object.entries<Json>(before.headers ?? {})) {
    const now = after.headers?.[name];
    if (now === undefined) yield `${at}: the header ${name} was removed.`;
    else if (header.required && !now.required) yield `${at}: the header ${name} may be absent.`;
  }
  yield* ofContent(at, before, after, 'answer');
}

function* ofContent(at: string, before: Json, after: Json, side: Side): Breaks {
  for (const [type, { schema }] of Object.entries<Json>(before?.content ?? {})) {
    const now = after?.content?.[type];
    if (now === undefined) yield `${at}: ${type} was removed.`;
    else yield* ofSchema(at, schema, now.schema, side);
  }
}

function* ofSchema(at: string, before: Json, after: Json, side: Side): Breaks {
  const [old, next] = [formsOf(before), formsOf(after)];
  if (side === 'request' ? next.length < old.length : next.length > old.length)
    yield `${at}: has ${next.length} forms instead of ${old.length}.`;
  for (const [index, form] of old.entries()) if (next[index]) yield* ofForm(at, form, next[index], side);
}

const formsOf = ({ anyOf, ...schema }: Json): Json[] =>
  anyOf?.map((form: Json) => ({ ...schema, ...form })) ?? [schema];

function* ofForm(at: string, before: Json, after: Json, side: Side): Breaks {
  // What a client sends has to be taken, and what it gets has to be what it knows.
  const [given, taken] = side === 'request' ? [before, after] : [after, before];
  if (!isTaken(given.type, taken.type)) yield `${at}: the type ${before.type} became ${after.type}.`;
  for (const rule of ['const', 'format', 'pattern']) {
    if (taken[rule] !== undefined && taken[rule] !== given[rule])
      yield `${at}: the ${rule} ${before[rule]} became ${after[rule]}.`;
  }
  if (side === 'request') yield* ofLimits(at, before, after);
  if (after.additionalProperties === false && before.additionalProperties !== false) yield `${at}: became closed.`;
  for (const [name, property] of Object.entries<Json>(before.properties ?? {})) {
    const now = after.properties?.[name];
    if (now === undefined) yield `${at}: the property ${name} was removed.`;
    else yield* ofSchema(`${at}, ${name}`, property, now, side);
  }
  const missing = (taken.required ?? []).filter((name: string) => !given.required?.includes(name));
  for (const name of missing)
    yield `${at}: the property ${name} ${side === 'request' ? 'became required' : 'may be absent'}.`;
  if (before.items && after.items) yield* ofSchema(`${at}[]`, before.items, after.items, side);
}

function isTaken(given: string | string[] | undefined, taken: string | string[] | undefined): boolean {
  if (taken === undefined) return true;
  return given !== undefined && [given].flat().every((type) => [taken].flat().includes(type));
}

/** Values of an enumeration may be added to an answer (docs/compatibility.md). */
function* ofLimits(at: string, before: Json, after: Json): Breaks {
  for (const value of before.enum ?? []) {
    if (after.enum && !after.enum.includes(value)) yield `${at}: the value ${value} was removed.`;
  }
  if (after.enum && !before.enum) yield `${at}: takes only certain values.`;
  for (const rule of ['minimum', 'minLength', 'minItems']) {
    if (after[rule] > (before[rule] ?? Number.NEGATIVE_INFINITY)) yield `${at}: ${rule} became ${after[rule]}.`;
  }
  for (const rule of ['maximum', 'maxLength', 'maxItems']) {
    if (after[rule] < (before[rule] ?? Number.POSITIVE_INFINITY)) yield `${at}: ${rule} became ${after[rule]}.`;
  }
}
