import {
  type ASTNode,
  BREAK,
  GraphQLError,
  type GraphQLSchema,
  type GraphQLType,
  getNamedType,
  getNullableType,
  isInputObjectType,
  isListType,
  typeFromAST,
  type VariableDefinitionNode,
  visit,
} from 'graphql';
import { isAlike } from '../config/alike.js';
import {
  type AppError,
  afterChange,
  type DocsOf,
  type ErrorCode,
  fromUnknown,
  isErrorCode,
  redact,
} from '../errors.js';
import { MAX_ERRORS } from './limits.js';
import { definitionOf } from './nodes.js';

/** Messages of GraphQL.js repeat values: how much of one is searched for secrets, and how much is answered. */
const READ_LENGTH = 2_000;
const MESSAGE_LENGTH = 500;
/** A value in such a message, and how long one may be to be repeated. */
const VALUE = /"((?:[^"\\]|\\.)*)"?/gs;
const VALUE_LENGTH = 40;

/** The treatment of the errors of a request. */
export interface ErrorTerms {
  /** Gets those that the operator should know. */
  readonly report: (failure: AppError) => void;
  /** Absent where callers have no documentation of the codes. */
  readonly docsOf?: DocsOf | undefined;
}

/** The errors of an execution as the caller may see them. */
export function toGraphQLErrors(errors: readonly unknown[], terms: ErrorTerms): GraphQLError[] {
  const shown = errors.slice(0, MAX_ERRORS).map((error) => toGraphQLError(error, terms));
  const last = shown.at(-1);
  if (errors.length === shown.length || last === undefined) return shown;
  const message = `${last.message} (More errors are not shown.)`;
  return [...shown.slice(0, -1), new GraphQLError(message, { ...positionOf(last), extensions: last.extensions })];
}

/** An error of an execution for the caller: public message, position, `extensions.code`, `extensions.docs`, `extensions.argument` where one is at fault, `extensions.userId`. */
export function toGraphQLError(error: unknown, terms: ErrorTerms): GraphQLError {
  if (!(error instanceof GraphQLError)) return asGraphQLError(error, undefined, terms);
  if (error.originalError !== undefined && !(error.originalError instanceof GraphQLError)) {
    return asGraphQLError(error.originalError, error, terms);
  }
  if (isErrorCode(error.extensions['code'])) return error;
  // An error of GraphQL.js or Yoga about the request: its form, syntax or validity, or a value of a wrong type.
  // Their own codes depend on where a value stands, so callers do not get them.
  const http = (error.extensions['http'] as { status?: number } | undefined) ?? REFUSED;
  return new GraphQLError(shorten(withLikelyNames(error.message)), {
    ...positionOf(error),
    extensions: {
      // Only a request that was not executed has a status. A field that fails does not change it.
      ...(error.path === undefined && { http }),
      ...codeOf(http.status === 405 ? 'METHOD_NOT_ALLOWED' : 'BAD_USER_INPUT', terms),
      ...argumentIn({ argument: /^Argument "(\w+)" /.exec(error.message)?.[1], ...error.extensions }),
    },
  });
}

/** Tells Yoga the status with application/graphql-response+json. With application/json it stays 200. */
const REFUSED = { spec: true, status: 400 };
/** Tells Yoga the status with either media type. */
export const BAD_REQUEST = { status: 400 };

/** Shortens a message of GraphQL.js and removes secrets and personal data, because it repeats values. */
function shorten(message: string): string {
  const text = redact(message.slice(0, READ_LENGTH)).replace(VALUE, (quoted, value: string) =>
    value.length > VALUE_LENGTH ? '"…"' : quoted,
  );
  return text.length > MESSAGE_LENGTH ? `${text.slice(0, MESSAGE_LENGTH).replace(/[\ud800-\udbff]$/, '')}…` : text;
}

/** GraphQL.js suggests the nearest name that there is, such as "email" for "extId". Only names that are alike are suggested here. */
function withLikelyNames(message: string): string {
  const [hint = '', words = ''] = SUGGESTED.exec(message) ?? [];
  if (hint === '') return message;
  const said = message.slice(0, -hint.length);
  const given = GIVEN.map((form) => [...said.slice(-READ_LENGTH).matchAll(form)].at(-1)?.[1]).find(Boolean);
  if (given === undefined) return message;
  const likely = [...words.matchAll(/"(\w{1,128})"/g)].flatMap(([quoted, name = '']) =>
    isAlike(given.toLowerCase(), name.toLowerCase()) ? [quoted] : [],
  );
  return likely.length === 0 ? said : `${said} Did you mean ${likely.join(' or ')}?`;
}

const SUGGESTED = / Did you mean ("[\w", ]{1,600}")\?$/;
/** The unknown name in such a message; what is around it is named too. */
const GIVEN = [/\bargument "(\w{1,128})"/g, /\bfield "(\w{1,128})"/gi, /\btype "(\w{1,128})"/g];

function asGraphQLError(error: unknown, wrapper: GraphQLError | undefined, terms: ErrorTerms): GraphQLError {
  const failure = fromUnknown(error);
  if (failure.status >= 500) terms.report(failure);
  const said = failure.code === 'BAD_USER_INPUT' ? NAME.exec(failure.message)?.[1] : undefined;
  const names = failure.subject?.names ?? (said === undefined ? [] : [said]);
  const argument = argumentAtFault(names, wrapper?.nodes?.[0]);
  return new GraphQLError(failure.publicMessage, {
    ...(wrapper && positionOf(wrapper)),
    extensions: { ...extensionsOf(failure, terms), ...(argument !== null && { argument }) },
  });
}

/** Extensions for programs: the code, the user who has what was given and, as the header Retry-After, the seconds to wait before a retry. */
export function extensionsOf({ code, retryAfter, subject }: AppError, terms: Pick<ErrorTerms, 'docsOf'>) {
  const userId = subject?.userId ?? null;
  return {
    ...codeOf(code, terms),
    ...(userId !== null && { userId: String(userId) }),
    ...(retryAfter !== null && { retryAfter }),
  };
}

/** A code, and where its documentation is. */
export function codeOf(code: ErrorCode, { docsOf }: Pick<ErrorTerms, 'docsOf'>) {
  return { code, ...(docsOf !== undefined && { docs: docsOf(code) }) };
}

/** An error of a mutation. Below its first field, what is asked was done by then. */
export function belowChange(error: GraphQLError): GraphQLError {
  const said = afterChange(error.originalError);
  if (said === error.originalError || error.path === undefined || error.path.length < 2) return error;
  return new GraphQLError(error.message, { ...positionOf(error), originalError: said as Error });
}

function positionOf({ nodes, source, positions, path }: GraphQLError) {
  return { nodes: nodes ?? null, source: source ?? null, positions: positions ?? null, path: path ?? null };
}

/** The name with which the error of a value begins (errors.ts); of several names the first. */
const NAME = /^([a-zA-Z]\w*(?:\[\d+\])?(?:\.\w+)*)(?:, \w+)*: /;

/** The argument at fault or, within an input object or a list, the path to the value, such as `input.accounts[0].publicKey`. Null where the field has none of them. */
function argumentAtFault(paths: readonly string[], node: ASTNode | undefined): string | null {
  if (node?.kind !== 'Field') return null;
  const all = definitionOf(node)?.args ?? [];
  for (const path of paths) {
    const [name = ''] = path.split(/[.[]/);
    for (const argument of all) {
      if (argument.name === name) return path;
      const type = getNamedType(argument.type);
      if (isInputObjectType(type) && Object.hasOwn(type.getFields(), name)) return `${argument.name}.${path}`;
    }
  }
  return null;
}

/** The argument that an error about a request was found to be about. */
function argumentIn({ argument }: Readonly<Record<string, unknown>>) {
  return typeof argument === 'string' ? { argument: redact(argument) } : {};
}

/** The step to the field that an object lacks, or has and should not have, if a message of GraphQL.js says so. */
function fieldIn(message: string): string {
  const name = FIELD.exec(message)?.[1];
  return name === undefined ? '' : `.${name}`;
}

const FIELD =
  /\bField "(?:\w+\.)?(\w{1,128})" (?:of required type "[^"]*" was not provided\.$|is not defined by type )/;

/** The extensions of an error about a value in a document that does not fit its type. */
export function blameArgument(document: ASTNode, { nodes, extensions, message }: GraphQLError) {
  const value = nodes?.[0];
  const isValue = value !== undefined && /Value$|^ObjectField$|^Argument$/.test(value.kind);
  const path = isValue ? pathToArgument(document, value) : null;
  return {
    ...extensions,
    ...argumentIn({ argument: path && (value?.kind === 'ObjectField' ? path : path + fieldIn(message)) }),
  };
}

/** The argument in which a variable is first used. Only the message of GraphQL.js says where in the variable the value stands. */
export function blameArgumentOfVariable(roots: readonly ASTNode[], { nodes, message }: GraphQLError) {
  const definition = nodes?.[0];
  if (definition?.kind !== 'VariableDefinition') return {};
  const { value: name } = definition.variable.name;
  const place = ` at "${name}`;
  const from = message.lastIndexOf(place);
  const within = from < 0 ? '' : /^[\w.[\]]*/.exec(message.slice(from + place.length))?.[0];
  for (const root of roots) {
    const path = pathToArgument(root, name);
    if (path !== null) return argumentIn({ argument: `${path}${within}${fieldIn(message)}` });
  }
  return {};
}

/**
 * Where a value of a variable stands: the argument in which the variable is first used, and the steps from there that the schema knows; within JSON
 * it knows none. The path begins with the name of the variable where no argument uses it.
 */
export function placeOfVariable(
  schema: GraphQLSchema,
  roots: readonly ASTNode[],
  { variable, type }: VariableDefinitionNode,
  keys: readonly (string | number)[],
): { path: string; argument: string | null } {
  const { value: name } = variable.name;
  const within = knownSteps(typeFromAST(schema, type), keys);
  for (const root of roots) {
    const used = pathToArgument(root, name);
    if (used !== null) return { path: used + within, argument: used + within };
  }
  return { path: name + within, argument: null };
}

/** The first of some keys and places in lists, as far as a type knows them. */
function knownSteps(type: GraphQLType | undefined, [key, ...others]: readonly (string | number)[]): string {
  const nullable = getNullableType(type);
  if (isListType(nullable)) return typeof key === 'number' ? `[${key}]${knownSteps(nullable.ofType, others)}` : '';
  const field = isInputObjectType(nullable) ? nullable.getFields()[String(key)] : undefined;
  return field === undefined ? '' : `.${field.name}${knownSteps(field.type, others)}`;
}

/** The path of a value, or of the first use of a variable, such as `input.accounts[0].publicKey`; null outside of the arguments of fields. */
function pathToArgument(root: ASTNode, sought: ASTNode | string): string | null {
  let path: string | null = null;
  visit(root, {
    enter(node, _key, parent, _path, ancestors) {
      if (node.kind === 'VariableDefinition' || node.kind === 'Directive') return false;
      const isSought = node === sought || (node.kind === 'Variable' && node.name.value === sought);
      if (!isSought) return undefined;
      path = pathOf([...ancestors, ...(parent === undefined ? [] : [parent]), node]);
      return path === null ? undefined : BREAK;
    },
  });
  return path;
}

/** The nodes and lists of nodes from a field down to a value, as a path. */
function pathOf(chain: readonly (ASTNode | readonly ASTNode[])[]): string | null {
  let path: string | null = null;
  chain.forEach((step, at) => {
    const [list, around] = [chain[at - 1], chain[at - 2]];
    if (!('kind' in step)) return;
    if (step.kind === 'Argument') path = step.name.value;
    else if (step.kind === 'ObjectField') path = path && `${path}.${step.name.value}`;
    else if (Array.isArray(list) && around && 'kind' in around && around.kind === 'ListValue')
      path = path && `${path}[${list.indexOf(step)}]`;
  });
  return path;
}

/** GraphQL.js's words for an input of exactly one key that has another number of them, of a value in a document and of a variable. */
const NOT_ONE_KEY = /\bOneOf (?:Input Object "(\w+)" must specify exactly one key|type "(\w+)")\.$/;

/** Adds to such an error which keys there are, and to one about an ID what is an ID. */
export function nameKeys(schema: GraphQLSchema, error: GraphQLError): GraphQLError {
  if (/\bID cannot represent [\w -]*value: /.test(error.message))
    return new GraphQLError(`${error.message}. Expected decimal digits.`, { nodes: error.nodes ?? null });
  const [, inDocument, inVariable = ''] = NOT_ONE_KEY.exec(error.message) ?? [];
  const type = schema.getType(inDocument ?? inVariable);
  if (!isInputObjectType(type)) return error;
  const message = `${error.message} Expected one of ${Object.keys(type.getFields()).join(', ')}.`;
  return new GraphQLError(message, { nodes: error.nodes ?? null });
}
