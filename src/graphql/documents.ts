import {
  type DocumentNode,
  GraphQLError,
  getOperationAST,
  type OperationDefinitionNode,
  parse,
  specifiedRules,
  validate,
} from 'graphql';
import { LRUCache } from 'lru-cache';
import { redact } from '../telemetry/redact.js';
import { type CompiledSize, compile, type Run } from './compiled.js';
import { type Cost, weighOperation } from './cost.js';
import { MAX_ERRORS } from './errors.js';
import { dropTokens, excess, findExcess, LIMITS } from './limits.js';
import { schema } from './schema.js';

/** A document as it was read: valid, or with what is wrong with it. It has no tree where it has no syntax. */
export interface ReadDocument {
  readonly text: string;
  readonly tree: DocumentNode | null;
  readonly faults: readonly GraphQLError[];
  /** The operation of this name, or the only one; null where there is none. */
  operation(name: string | undefined): KnownOperation | null;
  /** What compiling its operations may still add to it, and has added. */
  readonly compiled: CompiledSize;
}

/** An operation of a valid document, with what is worked out once for all its executions. */
export interface KnownOperation {
  readonly node: OperationDefinitionNode;
  /** As the log may say it; null where it has no name, or one that could be a secret or an address. */
  readonly loggedName: string | null;
  readonly cost: Cost;
  /** How to execute it faster, once that was worth it. */
  readonly run: Run | null;
  /** Counts an execution without an error; true where this one made `run`. */
  learn(): boolean;
}

/** Executions without an error after which an operation is compiled, so that nothing is spent on what does not come again. */
const COMPILED_AFTER = 3;
/** A fragment is compiled again wherever it is spread, so an operation may have more fields than its document has tokens. */
const FIELDS_PER_TOKEN = 2;
/** Longer names could hide the hash of a secret. */
const LONGEST_LOGGED_NAME = 60;

/** A document that has not been seen lately: parsed, checked against the limits, validated. Never throws. */
export function readDocument(text: string): ReadDocument {
  const none = { text, tree: null, operation: () => null, compiled: { fields: 0, most: 0 } };
  if (text.length > LIMITS.characters)
    return { ...none, faults: [new GraphQLError(excess('characters', text.length))] };
  const lines = text.match(/\r\n|\n|\r/g)?.length ?? 0;
  if (lines > LIMITS.lines) return { ...none, faults: [new GraphQLError(excess('lines', lines))] };
  try {
    const tree = parse(text, { maxTokens: LIMITS.tokens });
    dropTokens(tree);
    const exceeded = findExcess(tree);
    const faults = exceeded
      ? [exceeded]
      : validate(schema, tree, specifiedRules, { maxErrors: MAX_ERRORS }).map(explain);
    if (faults.length > 0) return { ...none, tree, faults };
    const compiled = { fields: 0, most: FIELDS_PER_TOKEN * (tree.tokenCount ?? 0) };
    return { text, tree, faults, compiled, operation: knownOperations(tree, compiled) };
  } catch (error) {
    if (error instanceof GraphQLError) return { ...none, faults: [explain(error)] };
    // The parser and the validator recurse as deep as lists and objects nest: the stack is their limit.
    if (error instanceof RangeError)
      return { ...none, faults: [new GraphQLError(excess('depth', 'too many to follow'))] };
    throw error;
  }
}

/** The parser has no other sign of too many tokens than its sentence. */
const TOO_MANY_TOKENS = `more that ${LIMITS.tokens} tokens`;

/** GraphQL.js has limits of its own that do not say what they are about. */
function explain(error: GraphQLError): GraphQLError {
  if (error.message.includes(TOO_MANY_TOKENS)) return new GraphQLError(excess('tokens', 'more'));
  if (error.message !== 'Validation aborted.') return error;
  return new GraphQLError('repetitions: got more fields of the same name than can be compared, expected each once.');
}

function knownOperations(tree: DocumentNode, compiled: CompiledSize): ReadDocument['operation'] {
  const known = new Map<OperationDefinitionNode, KnownOperation>();
  return (name) => {
    const node = getOperationAST(tree, name);
    // Of a kind that the schema does not have, which Yoga refuses.
    if (!node || !schema.getRootType(node.operation)) return null;
    let operation = known.get(node);
    if (operation === undefined) {
      operation = knownOperation(tree, node, compiled);
      known.set(node, operation);
    }
    return operation;
  };
}

function knownOperation(tree: DocumentNode, node: OperationDefinitionNode, compiled: CompiledSize): KnownOperation {
  let executions = 0;
  let run: Run | null = null;
  return {
    node,
    loggedName: loggedNameOf(node),
    cost: weighOperation(tree, node),
    get run() {
      return run;
    },
    learn() {
      executions += 1;
      if (executions === COMPILED_AFTER) run = compile(tree, node, compiled);
      return executions === COMPILED_AFTER && run !== null;
    },
  };
}

function loggedNameOf({ name }: OperationDefinitionNode): string | null {
  const given = name?.value ?? '';
  return given !== '' && given.length <= LONGEST_LOGGED_NAME && redact(given) === given ? given : null;
}

/** What the documents of all projects may take together, and those of one project. */
const MAX_BYTES = 48 * 2 ** 20;
const MAX_BYTES_OF_PROJECT = 12 * 2 ** 20;
/** What a token leaves behind in the tree, and what a field takes once it is compiled: measured, and rounded up. */
const BYTES_OF_TOKEN = 350;
const BYTES_OF_COMPILED_FIELD = 1_000;

interface Entry {
  readonly document: ReadDocument;
  /** The project that sent it first, among those that it is remembered for. */
  readonly project: string;
  readonly bytes: number;
}

/**
 * Valid documents that came lately. A document that is not valid is not remembered. A project that sends many has its own
 * oldest forgotten and not those of others.
 */
export function createDocumentCache() {
  const projects = new Map<string, { bytes: number; readonly texts: Set<string> }>();
  const documents = new LRUCache<string, Entry>({
    maxSize: MAX_BYTES,
    sizeCalculation: ({ bytes }) => bytes,
    dispose: ({ document, project, bytes }) => {
      const own = projects.get(project);
      if (own === undefined) return;
      own.texts.delete(document.text);
      own.bytes -= bytes;
      if (own.texts.size === 0) projects.delete(project);
    },
  });

  function add(document: ReadDocument, project: string): void {
    const bytes = sizeOf(document);
    const own = projects.get(project) ?? { bytes: 0, texts: new Set() };
    projects.set(project, own);
    own.bytes += bytes;
    own.texts.add(document.text);
    documents.set(document.text, { document, project, bytes });
    for (const oldest of own.texts) {
      if (own.bytes <= MAX_BYTES_OF_PROJECT) return;
      documents.delete(oldest);
    }
  }

  return {
    find: (text: string): ReadDocument | null => documents.get(text)?.document ?? null,

    /** Remembers a document for a project that has sent it. */
    add(document: ReadDocument, project: string): void {
      if (document.faults.length === 0 && !documents.has(document.text)) add(document, project);
    },

    /** To be told of a document that takes more memory than before. */
    weighAgain({ text }: ReadDocument): void {
      const entry = documents.peek(text);
      if (entry === undefined) return;
      documents.delete(text);
      add(entry.document, entry.project);
    },
  };
}

export type DocumentCache = ReturnType<typeof createDocumentCache>;

function sizeOf({ text, tree, compiled }: ReadDocument): number {
  const ofTree = (tree?.tokenCount ?? 0) * BYTES_OF_TOKEN;
  return 2 * text.length + ofTree + compiled.fields * BYTES_OF_COMPILED_FIELD;
}
