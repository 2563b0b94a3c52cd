import { parse } from 'libpg-query';
import type { Migration, Step } from '#dist/db/migration-files.js';

/**
 * What a migration may do to tables that are used (docs/decisions/migrations.md). What is not known to be short is refused: a statement that
 * scans or rewrites a table keeps everybody else waiting for the lock that it holds.
 */

// biome-ignore lint/suspicious/noExplicitAny: the syntax tree of PostgreSQL
type Node = any;

/** What is found wrong, one sentence each. */
export async function findFaults({ name, steps }: Pick<Migration, 'name' | 'steps'>): Promise<string[]> {
  if (steps === null) return [`${name} is not cut into steps.`];
  const parsed = await Promise.all(
    steps.map(async (step) => ({
      step,
      statements: ((await parse(step.sql)).stmts ?? []).map(({ stmt }: Node) => stmt),
    })),
  );
  /** What the steps so far have made. */
  const made: Made = { tables: new Set(), checks: new Map(), validated: new Set() };
  return parsed.flatMap(({ step, statements }) =>
    [...faultsOf(step, statements, made)].map((fault) => `${name}, ${step.what}: ${fault}`),
  );
}

interface Made {
  readonly tables: Set<string>;
  /** The column that a CHECK (column IS NOT NULL) is about, by the table and the name of the constraint. */
  readonly checks: Map<string, string>;
  /** The columns of tables that a validated CHECK keeps from being null. */
  readonly validated: Set<string>;
}

function* faultsOf({ mode }: Step, statements: Node[], made: Made): Generator<string> {
  if (mode !== 'in one transaction' && statements.length !== 1) yield `${mode}, so it must be one statement.`;
  for (const statement of statements) {
    const [[kind, node] = []] = Object.entries<Node>(statement);
    if (mode === 'in one transaction') yield* faultsInTransaction(kind ?? '', node, made);
    else if (mode === 'in batches') yield* faultsInBatches(kind ?? '', node);
    else yield* faultsAlone(kind ?? '', node, made);
  }
}

const ALONE =
  'expected CREATE INDEX CONCURRENTLY IF NOT EXISTS, DROP INDEX CONCURRENTLY IF EXISTS or ALTER TABLE … VALIDATE CONSTRAINT, which can be run twice and keep nobody waiting.';

function* faultsAlone(kind: string, node: Node, made: Made): Generator<string> {
  if (kind === 'IndexStmt' && node.concurrent && node.if_not_exists && /^\w+$/.test(node.idxname ?? '')) return;
  if (kind === 'DropStmt' && node.removeType === 'OBJECT_INDEX' && node.concurrent && node.missing_ok) return;
  const cmds = kind === 'AlterTableStmt' ? node.cmds.map(({ AlterTableCmd }: Node) => AlterTableCmd) : [];
  if (cmds.length !== 1 || cmds[0].subtype !== 'AT_ValidateConstraint') return yield ALONE;
  const column = made.checks.get(`${node.relation.relname} ${cmds[0].name}`);
  if (column !== undefined) made.validated.add(`${node.relation.relname} ${column}`);
}

function* faultsInBatches(kind: string, node: Node): Generator<string> {
  if (!['UpdateStmt', 'DeleteStmt', 'InsertStmt'].includes(kind)) yield 'expected UPDATE, DELETE or INSERT.';
  else if (!JSON.stringify(node).includes('"limitCount"')) yield 'a batch must have a LIMIT.';
}

/** They lock what they are about for a moment, and read no rows. */
const SHORT = new Set([
  ...[
    'CreateFunctionStmt',
    'AlterFunctionStmt',
    'CreateTrigStmt',
    'CreateSeqStmt',
    'AlterSeqStmt',
    'CreateEnumStmt',
    'AlterEnumStmt',
  ],
  ...['CommentStmt', 'GrantStmt', 'RenameStmt', 'DropStmt', 'ViewStmt', 'VariableSetStmt'],
  // What they do is measured: test/db/migration-rules.test.ts.
  'DoStmt',
]);

function* faultsInTransaction(kind: string, node: Node, made: Made): Generator<string> {
  const table = node.relation?.relname ?? '';
  const isNew = made.tables.has(table);
  if (kind === 'CreateStmt') made.tables.add(table);
  else if (kind === 'IndexStmt') {
    if (!isNew || node.concurrent)
      yield `an index of ${table} is made by CREATE INDEX CONCURRENTLY, in a step without a transaction.`;
  } else if (kind === 'DropStmt' && node.removeType === 'OBJECT_INDEX')
    yield 'an index is dropped by DROP INDEX CONCURRENTLY, in a step without a transaction.';
  else if (['UpdateStmt', 'DeleteStmt', 'MergeStmt'].includes(kind)) {
    if (!isNew) yield `rows of ${table} are changed in batches.`;
  } else if (kind === 'InsertStmt' || kind === 'SelectStmt') {
    if (JSON.stringify(node.selectStmt ?? node).includes('"fromClause"'))
      yield 'a statement that reads tables takes as long as they are large; do it in batches.';
  } else if (kind === 'AlterTableStmt') {
    if (!isNew) for (const { AlterTableCmd } of node.cmds) yield* faultsOfChange(table, AlterTableCmd, made);
  } else if (!SHORT.has(kind)) yield `${kind} is not known to be short.`;
}

/** Parts of ALTER TABLE that only change the catalog. */
const SHORT_CHANGES = new Set([
  ...[
    'AT_ColumnDefault',
    'AT_DropNotNull',
    'AT_DropColumn',
    'AT_DropConstraint',
    'AT_DropExpression',
    'AT_SetStatistics',
  ],
  ...[
    'AT_SetOptions',
    'AT_ResetOptions',
    'AT_SetRelOptions',
    'AT_ResetRelOptions',
    'AT_ReplicaIdentity',
    'AT_ChangeOwner',
  ],
]);

function* faultsOfChange(table: string, { subtype, name, def }: Node, made: Made): Generator<string> {
  if (subtype === 'AT_AddColumn') yield* faultsOfColumn(table, def.ColumnDef);
  else if (subtype === 'AT_AddConstraint') yield* faultsOfConstraint(table, def.Constraint, made);
  else if (subtype === 'AT_SetNotNull') {
    if (!made.validated.has(`${table} ${name}`))
      yield `SET NOT NULL reads all of ${table}, unless a step before has validated a constraint CHECK (${name} IS NOT NULL).`;
  } else if (!SHORT_CHANGES.has(subtype)) yield `${subtype} of ${table} is not known to be short.`;
}

/** With one of these, a new column needs no new table. */
const PLAIN_CONSTRAINTS = ['CONSTR_NULL', 'CONSTR_NOTNULL', 'CONSTR_DEFAULT'];

function* faultsOfColumn(table: string, { colname, constraints = [] }: Node): Generator<string> {
  for (const { Constraint } of constraints) {
    if (!PLAIN_CONSTRAINTS.includes(Constraint.contype))
      yield `${Constraint.contype} of the new column ${table}.${colname} reads or rewrites the table.`;
    // A function is executed for each row unless it is stable, and the parser does not know.
    else if (Constraint.raw_expr !== undefined && JSON.stringify(Constraint.raw_expr).includes('"FuncCall"'))
      yield `the default of the new column ${table}.${colname} is not a constant, so it rewrites the table.`;
  }
}

function* faultsOfConstraint(
  table: string,
  { contype, conname, skip_validation, indexname, raw_expr }: Node,
  made: Made,
): Generator<string> {
  if (['CONSTR_UNIQUE', 'CONSTR_PRIMARY'].includes(contype)) {
    if (indexname === undefined)
      yield `the constraint ${conname} of ${table} needs an index that was made before (USING INDEX).`;
  } else if (!['CONSTR_CHECK', 'CONSTR_FOREIGN'].includes(contype))
    yield `${contype} of ${table} is not known to be short.`;
  else if (!skip_validation)
    yield `the constraint ${conname} of ${table} must be NOT VALID, and be validated in a step without a transaction.`;
  const { nulltesttype, arg } = raw_expr?.NullTest ?? {};
  if (nulltesttype === 'IS_NOT_NULL') made.checks.set(`${table} ${conname}`, arg.ColumnRef.fields[0].String.sval);
}
