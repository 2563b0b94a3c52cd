import { dirname, join, relative } from 'node:path/posix';
import { type Node, type SourceFile, SyntaxKind } from 'typescript/unstable/ast';
import {
  isCallExpression,
  isElementAccessExpression,
  isExportDeclaration,
  isIdentifier,
  isImportDeclaration,
  isImportTypeNode,
  isLiteralTypeNode,
  isNamedExports,
  isPropertyAccessExpression,
  isStringLiteral,
} from 'typescript/unstable/ast/is';
import { API } from 'typescript/unstable/sync';

/** What the rules of the house look at in a source file. */
export interface Module {
  /** Below the source folder, without its ending: `services/users`. */
  readonly path: string;
  readonly lines: number;
  readonly imports: readonly Import[];
  readonly hasDefaultExport: boolean;
  readonly readsEnvironment: boolean;
  /** Hosts of the URLs in it, comments included. */
  readonly hosts: readonly string[];
}

export interface Import {
  /** The path of a module of ours, or the specifier of another. */
  readonly to: string;
  readonly isOurs: boolean;
  readonly typeOnly: boolean;
  /** By `import()`, when it is needed. */
  readonly onDemand: boolean;
}

const URL_HOST = /\b[a-z][a-z0-9+.-]*:\/\/(?:[^\s/@'"`]*@)?([a-z0-9.-]+)/gi;

/** The modules of a TypeScript project whose tsconfig.json is in `sourceDir`, except those that a tool generates. */
export function readModules(sourceDir: string): Module[] {
  const api = new API({ cwd: sourceDir });
  try {
    const [project] = api.updateSnapshot({ openProjects: [join(sourceDir, 'tsconfig.json')] }).getProjects();
    if (project === undefined) throw new Error(`There is no TypeScript project in ${sourceDir}.`);
    return project.rootFiles
      .map((file) => ({ file, path: relative(sourceDir, file) }))
      .filter(({ path }) => !path.startsWith('db/generated/'))
      .map(({ file, path }) => {
        const source = project.program.getSourceFile(file);
        if (source === undefined) throw new Error(`TypeScript has not read ${file}.`);
        return readModule(source, withoutEnding(path));
      });
  } finally {
    api.close();
  }
}

function withoutEnding(path: string): string {
  return path.replace(/(\.d)?\.[jt]s$/, '');
}

function readModule(source: SourceFile, path: string): Module {
  const imports: Import[] = [];
  let readsEnvironment = false;
  let hasDefaultExport = false;
  const add = (specifier: Node | undefined, typeOnly: boolean, onDemand = false) => {
    if (specifier === undefined || !isStringLiteral(specifier)) {
      throw new Error(`${path} imports something that is no literal, which no rule can judge.`);
    }
    const isOurs = specifier.text.startsWith('.');
    const to = isOurs ? withoutEnding(join(dirname(path), specifier.text)) : specifier.text;
    imports.push({ to, isOurs, typeOnly, onDemand });
  };
  const visit = (node: Node): void => {
    if (isImportDeclaration(node)) {
      // `import { type A }` is not one: its module is still loaded (verbatimModuleSyntax).
      add(node.moduleSpecifier, node.importClause?.phaseModifier === SyntaxKind.TypeKeyword);
    } else if (isExportDeclaration(node)) {
      const { exportClause } = node;
      const names = exportClause !== undefined && isNamedExports(exportClause) ? exportClause.elements : [];
      hasDefaultExport ||= names.some((element) => element.name.text === 'default');
      if (node.moduleSpecifier !== undefined) add(node.moduleSpecifier, node.isTypeOnly);
    } else if (isCallExpression(node) && node.expression.kind === SyntaxKind.ImportKeyword) {
      add(node.arguments[0], false, true);
    } else if (isImportTypeNode(node)) {
      add(isLiteralTypeNode(node.argument) ? node.argument.literal : undefined, true);
    } else if (isPropertyAccessExpression(node)) {
      readsEnvironment ||= isProcess(node.expression) && node.name.text === 'env';
    } else if (isElementAccessExpression(node)) {
      // Whatever the key: it could be any.
      readsEnvironment ||= isProcess(node.expression);
    }
    hasDefaultExport ||= node.kind === SyntaxKind.ExportAssignment || node.kind === SyntaxKind.DefaultKeyword;
    node.forEachChild((child) => {
      visit(child);
      return undefined;
    });
  };
  // The default of a switch is a clause and not a keyword of its own, so that every DefaultKeyword is a modifier.
  visit(source);
  return {
    path,
    lines: source.text.split('\n').length - 1,
    imports,
    hasDefaultExport,
    readsEnvironment,
    hosts: [...source.text.matchAll(URL_HOST)].map((match) => match[1] as string),
  };
}

function isProcess(node: Node): boolean {
  return isIdentifier(node) && node.text === 'process';
}

interface Layer {
  readonly of: RegExp;
  /** What its modules may import, of ours; nothing else. */
  readonly may: readonly RegExp[];
  readonly mayAsTypes?: readonly RegExp[];
  /** Packages that it may not know of. */
  readonly never?: RegExp;
}

const LAYERS: readonly Layer[] = [
  { of: /^(redact|observation|input-limits|closers|secret-files)$/, may: [] },
  { of: /^config$/, may: [/^secret-files$/] },
  { of: /^(errors|logger)$/, may: [/^redact$/, /^input-limits$/] },
  { of: /^db\//, may: [/^db\//, /^errors$/, /^observation$/, /^closers$/], mayAsTypes: [/^config$/] },
  { of: /^sql\//, may: [/^sql\//, /^db\/client$/], mayAsTypes: [/^services\//] },
  {
    of: /^services\//,
    may: [/^services\//, /^sql\//, /^db\/client$/, /^errors$/, /^redact$/, /^observation$/, /^input-limits$/],
    never: /^(fastify|@fastify|graphql|@graphql-|@pothos|node:http|node:net|http$|https$)/,
  },
  // The builder tells Pothos of the Prisma models.
  { of: /^graphql\/builder$/, may: [/^graphql\//, /^auth$/, /^services\//, /^errors$/, /^db\/generated\/pothos$/] },
  {
    of: /^graphql\//,
    may: [
      /^graphql\//,
      /^auth$/,
      /^http$/,
      /^json-body$/,
      /^event-loop$/,
      /^admission$/,
      /^services\//,
      /^errors$/,
      /^redact$/,
      /^observation$/,
      /^input-limits$/,
    ],
  },
  {
    of: /^rest\//,
    may: [/^rest\//, /^auth$/, /^http$/, /^json-body$/, /^services\//, /^errors$/, /^redact$/, /^input-limits$/],
  },
  { of: /^cli(\/|$)/, may: [/./] },
  { of: /./, may: [/^(?!cli\/)/] },
];

/** What only some services want: nobody else loads it. */
const ON_DEMAND: Readonly<Record<string, RegExp>> = { metrics: /^prom-client$/, tracing: /^@opentelemetry\// };

const MAX_LINES = 400;
const KEBAB_CASE = /^[a-z0-9]+(-[a-z0-9]+)*$/;
const ALLOWED_HOST = /^(127\.0\.0\.1|localhost|([a-z0-9-]+\.)*example\.(com|net|org))$/i;
/** The one place that reads the environment. */
const READS_ENVIRONMENT = 'cli';

/** Every breach of the rules of the house, as a sentence. */
export function findFaults(modules: readonly Module[]): string[] {
  return [
    ...modules.flatMap((module) => [...faultsOfImports(module), ...faultsOfFile(module)]),
    ...findCycles(modules),
  ];
}

function* faultsOfImports({ path, imports }: Module): Generator<string> {
  const layer = LAYERS.find(({ of }) => of.test(path)) as Layer;
  for (const { to, isOurs, typeOnly, onDemand } of imports) {
    if (isOurs && to in ON_DEMAND && !typeOnly && !onDemand) yield `${path} may not import ${to} except on demand.`;
    const owner = Object.keys(ON_DEMAND).find((name) => !isOurs && ON_DEMAND[name]?.test(to));
    if (owner !== undefined && owner !== path) yield `${path} may not know of ${to}.`;
    if (!isOurs && layer.never?.test(to)) yield `${path} may not know of ${to}.`;
    if (!isOurs) continue;
    const mayAsType = layer.mayAsTypes?.some((pattern) => pattern.test(to)) ?? false;
    if (layer.may.some((pattern) => pattern.test(to)) || (typeOnly && mayAsType)) continue;
    yield `${path} may not import ${to}${mayAsType ? ' except as types' : ''}.`;
  }
}

function* faultsOfFile(module: Module): Generator<string> {
  const { path, lines } = module;
  if (!path.split('/').every((part) => KEBAB_CASE.test(part))) yield `${path} is not in kebab-case.`;
  if (module.hasDefaultExport) yield `${path} has a default export.`;
  if (lines > MAX_LINES) yield `${path} has ${lines} lines, more than ${MAX_LINES}.`;
  if (module.readsEnvironment && path !== READS_ENVIRONMENT) yield `${path} reads process.env.`;
  for (const host of module.hosts) if (!ALLOWED_HOST.test(host)) yield `${path} names the host ${host}.`;
}

/** Cycles of imports that are there when the program runs. */
function findCycles(modules: readonly Module[]): string[] {
  const edges = new Map(
    modules.map(({ path, imports }) => [path, imports.filter(({ isOurs, typeOnly }) => isOurs && !typeOnly)]),
  );
  const cycles: string[] = [];
  const done = new Set<string>();
  const follow = (path: string, trail: readonly string[]): void => {
    const start = trail.indexOf(path);
    if (start !== -1) cycles.push(`${[...trail.slice(start), path].join(' → ')} is a cycle.`);
    if (start !== -1 || done.has(path)) return;
    for (const { to } of edges.get(path) ?? []) follow(to, [...trail, path]);
    done.add(path);
  };
  for (const path of edges.keys()) follow(path, []);
  return cycles;
}
