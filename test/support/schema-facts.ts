import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/**
 * A schema as a set of sentences: one for each table, column, default, key, index, foreign key, sequence and enum. The
 * Prisma schema and the database catalog both become sentences, so that the comparison is one of sets.
 */
export type Facts = ReadonlySet<string>;

export interface Disagreement {
  /** Facts that only the Prisma schema has. */
  missing: string[];
  /** Facts that only the database has. */
  extra: string[];
}

export function compareFacts(schema: Facts, database: Facts): Disagreement {
  return {
    missing: [...schema].filter((fact) => !database.has(fact)).toSorted(),
    extra: [...database].filter((fact) => !schema.has(fact)).toSorted(),
  };
}

/** The part of Prisma's DMMF that this file reads; the types of @prisma/dmmf lack some fields of Prisma 7. */
interface Datamodel {
  enums: { name: string; dbName: string | null; values: { name: string; dbName: string | null }[] }[];
  models: Model[];
  indexes: {
    model: string;
    type: string;
    dbName?: string;
    algorithm?: string;
    fields: { name: string; sortOrder?: 'asc' | 'desc'; length?: number; operatorClass?: string }[];
  }[];
}

interface Model {
  name: string;
  dbName: string | null;
  fields: Field[];
}

interface Field {
  name: string;
  dbName?: string;
  kind: string;
  type: string;
  isList: boolean;
  isRequired: boolean;
  nativeType?: [name: string, args: string[]] | null;
  default?: unknown;
  relationFromFields?: string[];
  relationToFields?: string[];
  relationOnDelete?: string;
  relationOnUpdate?: string;
}

const SCHEMA_FILE = fileURLToPath(new URL('../../prisma/schema.prisma', import.meta.url));
const PRISMA = fileURLToPath(new URL('../../node_modules/prisma/build/index.js', import.meta.url));
const GENERATOR = fileURLToPath(new URL('./dmmf-generator.js', import.meta.url));

/** The facts of the Prisma schema, as Prisma parses it; an unknown element throws. */
export async function readSchemaFacts(): Promise<Facts> {
  const schema = await readFile(SCHEMA_FILE, 'utf8');
  return new Set(schemaFacts(await readDatamodel(schema), readNames(schema)));
}

async function readDatamodel(schema: string): Promise<Datamodel> {
  const folder = await mkdtemp(join(tmpdir(), 'userdir-dmmf-'));
  try {
    const output = join(folder, 'dmmf.json');
    const generator = { provider: `node ${GENERATOR}`, output };
    const settings = Object.entries(generator).map(([name, value]) => `  ${name} = ${JSON.stringify(value)}`);
    const file = join(folder, 'schema.prisma');
    await writeFile(file, `${schema}\ngenerator dmmf {\n${settings.join('\n')}\n}\n`);
    await promisify(execFile)(process.execPath, [PRISMA, 'generate', '--schema', file, '--generator', 'dmmf'], {
      // As in prisma.config.ts: Prisma must download nothing.
      env: { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: '1' },
    });
    return JSON.parse(await readFile(output, 'utf8'));
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Facts that the DMMF omits: index predicates by index name, and foreign key names by model and field. */
interface Names {
  predicates: Map<string, string>;
  /** Unique indexes to which two nulls are equal. Prisma has no words for that, so a comment says it. */
  nullsNotDistinct: Set<string>;
  foreignKeys: Map<string, string>;
}

function readNames(schema: string): Names {
  const nullsNotDistinct = [...schema.matchAll(/@@unique\(.* map: "(\w+)"\) \/\/ NULLS NOT DISTINCT$/gm)];
  const lines = schema.split('\n').map((line) => line.replace(/\/\/.*/, '').trim());
  const names: Names = {
    predicates: new Map(),
    nullsNotDistinct: new Set(nullsNotDistinct.map(([, name = '']) => name)),
    foreignKeys: new Map(),
  };
  let model = '';
  for (const line of lines) {
    model = /^model (\w+) \{$/.exec(line)?.[1] ?? model;
    const map = /\bmap: "(\w+)"\)/.exec(line)?.[1] ?? /\bmap: "(\w+)",/.exec(line)?.[1];
    if (/\bwhere:/.test(line)) {
      const predicate = /^@@(?:index|unique)\(.*\bwhere: raw\("([^"\\]*)"\)\)$/.exec(line)?.[1];
      if (predicate === undefined || map === undefined) throw new Error(`Not understood: ${line}`);
      names.predicates.set(map, predicate);
    }
    if (/@relation\(/.test(line)) {
      const field = /^(\w+)/.exec(line)?.[1];
      if (field === undefined || map === undefined) throw new Error(`Not understood: ${line}`);
      names.foreignKeys.set(`${model}.${field}`, map);
    }
  }
  return names;
}

const TYPES: Record<string, string> = {
  Int: 'integer',
  BigInt: 'bigint',
  String: 'text',
  Bytes: 'bytea',
  Boolean: 'boolean',
  DateTime: 'timestamp(3) without time zone',
  Json: 'jsonb',
};

function* schemaFacts({ enums, models, indexes }: Datamodel, names: Names): Generator<string> {
  for (const { name, dbName, values } of enums) {
    yield `enum ${dbName ?? name}: ${values.map((value) => value.dbName ?? value.name).join(', ')}`;
  }
  const enumNames = new Map(enums.map(({ name, dbName }) => [name, dbName ?? name]));
  const found = <Item>(item: Item | undefined, what: string): Item => {
    if (item === undefined) throw new Error(`${what} is not in the datamodel.`);
    return item;
  };
  const modelOf = (name: string) =>
    found(
      models.find((model) => model.name === name),
      name,
    );
  const column = (model: Model, name: string) => {
    const field = found(
      model.fields.find((each) => each.name === name),
      `${model.name}.${name}`,
    );
    return field.dbName ?? field.name;
  };
  const columns = (model: Model, fields: readonly string[]) => fields.map((name) => column(model, name)).join(', ');
  const usedPredicates = new Set<string>();

  for (const model of models) {
    const table = model.dbName ?? model.name;
    yield `table ${table}`;
    for (const field of model.fields.filter(({ kind }) => kind !== 'object')) {
      const name = field.dbName ?? field.name;
      const type =
        field.kind === 'enum' ? enumType(found(enumNames.get(field.type), field.type), field) : typeOf(field);
      yield `column ${table}.${name}: ${type} ${field.isRequired ? 'not null' : 'null'}`;
      yield* defaultFacts(`${table}.${name}`, type, field.default);
    }
    for (const field of model.fields.filter(({ relationFromFields }) => (relationFromFields ?? []).length > 0)) {
      const target = modelOf(field.type);
      const name = found(names.foreignKeys.get(`${model.name}.${field.name}`), `${model.name}.${field.name}`);
      const onDelete = field.relationOnDelete ?? (field.isRequired ? 'Restrict' : 'SetNull');
      const onUpdate = field.relationOnUpdate ?? 'Cascade';
      yield `foreign key ${name} of ${table} (${columns(model, field.relationFromFields ?? [])})` +
        ` to ${target.dbName ?? target.name} (${columns(target, field.relationToFields ?? [])})` +
        ` on delete ${onDelete.toLowerCase()} on update ${onUpdate.toLowerCase()}`;
    }
  }
  for (const index of indexes) {
    const model = modelOf(index.model);
    const table = model.dbName ?? model.name;
    const parts = index.fields.map((field) => {
      if (field.length !== undefined || field.operatorClass !== undefined) throw new Error(`Not understood: ${field}`);
      return `${column(model, field.name)}${field.sortOrder === 'desc' ? ' desc' : ''}`;
    });
    if (index.algorithm !== undefined) throw new Error(`Not understood: an index by ${index.algorithm}`);
    const name = index.type === 'id' ? (index.dbName ?? `${table}_pkey`) : found(index.dbName, `The name of an index`);
    const predicate = names.predicates.get(name);
    if (predicate !== undefined) usedPredicates.add(name);
    yield indexFact({
      kind: indexKind(index.type),
      name,
      table,
      parts,
      nullsNotDistinct: names.nullsNotDistinct.has(name),
      predicate: predicate ?? null,
    });
  }
  const unused = [...names.predicates.keys()].filter((name) => !usedPredicates.has(name));
  if (unused.length > 0) throw new Error(`Predicates of indexes that Prisma does not know: ${unused.join(', ')}`);
}

const NATIVE_TYPES: Record<string, (precision: string) => string> = {
  Timestamptz: (precision) => `timestamp(${precision}) with time zone`,
  Date: () => 'date',
  SmallInt: () => 'smallint',
};

function typeOf({ type, nativeType, isList }: Field): string {
  const [native, args = []] = nativeType ?? [];
  const known = native === undefined ? TYPES[type] : NATIVE_TYPES[native]?.(args.join());
  if (known === undefined) throw new Error(`Not understood: the type ${type} ${native} ${isList}`);
  return isList ? `${known}[]` : known;
}

function enumType(name: string, { isList }: Field): string {
  return isList ? `${name}[]` : name;
}

function* defaultFacts(column: string, type: string, value: unknown): Generator<string> {
  if (value === undefined) return;
  const call = value as { name?: string; args?: unknown[] } | null;
  if (call?.name === 'autoincrement') {
    const sequence = column.replace('.', '_').concat('_seq');
    yield `sequence ${sequence}: ${type} of ${column}`;
    yield `default ${column}: nextval('${sequence}'::regclass)`;
  } else if (call?.name === 'now') yield `default ${column}: CURRENT_TIMESTAMP`;
  else if (call?.name === 'dbgenerated') yield `default ${column}: ${call.args?.[0] ?? 'by the database'}`;
  else if (typeof value === 'string') yield `default ${column}: '${value}'::${type}`;
  else if (Array.isArray(value)) yield `default ${column}: '{${value.join(',')}}'::${type}`;
  else if (typeof value === 'number' || typeof value === 'boolean') yield `default ${column}: ${value}`;
  else throw new Error(`Not understood: the default ${JSON.stringify(value)} of ${column}`);
}

type IndexKind = 'primary key' | 'unique index' | 'index';

function indexKind(type: string): IndexKind {
  const kinds: Record<string, IndexKind> = { id: 'primary key', unique: 'unique index', normal: 'index' };
  const kind = kinds[type];
  if (kind === undefined) throw new Error(`Not understood: an index of type ${type}`);
  return kind;
}

interface IndexParts {
  kind: IndexKind;
  name: string;
  table: string;
  parts: string[];
  nullsNotDistinct: boolean;
  predicate: string | null;
}

function indexFact({ kind, name, table, parts, nullsNotDistinct, predicate }: IndexParts) {
  const nulls = nullsNotDistinct ? ' nulls not distinct' : '';
  const where = predicate === null ? '' : ` where ${predicate}`;
  return `${kind} ${name} of ${table} (${parts.join(', ')})${nulls}${where}`;
}

interface Client {
  query<Row>(sql: string): Promise<{ rows: Row[] }>;
}

/** Everything in the schema `public` of a database. */
export async function readDatabaseFacts(client: Client): Promise<Facts> {
  return readFacts(client, CATALOG_QUERIES);
}

/** The same with what functions do, and with the order of columns. */
export async function readWholeSchema(client: Client): Promise<Facts> {
  return readFacts(client, [...CATALOG_QUERIES, ...DETAILS]);
}

async function readFacts(client: Client, queries: readonly string[]): Promise<Facts> {
  const sql = queries.map((each) => `(${each})`).join(' UNION ALL ');
  const { rows } = await client.query<{ fact: string }>(sql);
  return new Set(rows.map(({ fact }) => fact.replace(/\s+/g, ' ')));
}

const DETAILS = [
  "SELECT pg_get_functiondef(oid) AS fact FROM pg_proc WHERE pronamespace = 'public'::regnamespace",
  `SELECT 'order ' || c.relname || ': ' || string_agg(a.attname, ', ' ORDER BY a.attnum) AS fact
   FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
   WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped GROUP BY c.relname`,
];

/** Each query returns sentences like those of the schema; things that Prisma cannot express get other sentences. */
const CATALOG_QUERIES = [
  // Every relation: tables, and kinds that must not exist (views, foreign tables). Indexes and sequences follow.
  `SELECT CASE relkind WHEN 'r' THEN 'table ' ELSE 'relation of kind ' || relkind::text || ' ' END || relname AS fact
   FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind NOT IN ('i', 'S')`,
  `SELECT 'column ' || c.relname || '.' || a.attname || ': ' || format_type(a.atttypid, a.atttypmod)
          || CASE WHEN a.attnotnull THEN ' not null' ELSE ' null' END AS fact
   FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
   WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped`,
  `SELECT 'default ' || c.relname || '.' || a.attname || ': '
          || CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) ELSE 'by the database' END AS fact
   FROM pg_attrdef d JOIN pg_class c ON c.oid = d.adrelid JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.adnum
   WHERE c.relnamespace = 'public'::regnamespace`,
  `SELECT 'identity ' || c.relname || '.' || a.attname || ': ' || a.attidentity::text AS fact
   FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
   WHERE c.relnamespace = 'public'::regnamespace AND a.attidentity <> ''`,
  `SELECT 'generated ' || c.relname || '.' || a.attname || ' as ' || pg_get_expr(d.adbin, d.adrelid)
          || CASE a.attgenerated WHEN 's' THEN ' stored' ELSE ' virtual' END AS fact
   FROM pg_attrdef d JOIN pg_class c ON c.oid = d.adrelid JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.adnum
   WHERE c.relnamespace = 'public'::regnamespace AND a.attgenerated <> ''`,
  `SELECT 'collation ' || c.relname || '.' || a.attname || ': ' || o.collname AS fact
   FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_collation o ON o.oid = a.attcollation
   WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND o.collname <> 'default'`,
  // Index options that Prisma cannot express get a sentence if they differ from the default.
  `SELECT CASE WHEN i.indisprimary THEN 'primary key ' WHEN i.indisunique THEN 'unique index ' ELSE 'index ' END
          || x.relname || ' of ' || t.relname || ' (' || (
            SELECT string_agg(
              pg_get_indexdef(x.oid, place, true)
                || CASE i.indoption[place - 1] WHEN 0 THEN '' WHEN 3 THEN ' desc' WHEN 1 THEN ' desc nulls last' ELSE ' nulls first' END
                || CASE WHEN place > i.indnkeyatts THEN ' (included)' ELSE '' END
                || CASE WHEN place > i.indnkeyatts OR p.opcdefault THEN '' ELSE ' ' || p.opcname END,
              ', ' ORDER BY place)
            FROM generate_series(1, i.indnatts) AS place
            LEFT JOIN pg_opclass p ON p.oid = i.indclass[place - 1]
          ) || ')'
          || CASE WHEN m.amname = 'btree' THEN '' ELSE ' using ' || m.amname END
          || CASE WHEN i.indnullsnotdistinct THEN ' nulls not distinct' ELSE '' END
          || CASE WHEN i.indisvalid AND i.indisready THEN '' ELSE ' not valid' END
          || coalesce(' where ' || regexp_replace(pg_get_expr(i.indpred, i.indrelid), '^\\((.*)\\)$', '\\1'), '') AS fact
   FROM pg_index i
   JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid JOIN pg_am m ON m.oid = x.relam
   WHERE t.relnamespace = 'public'::regnamespace AND t.relkind = 'r'`,
  `SELECT 'foreign key ' || k.conname || ' of ' || t.relname || ' (' || (
            SELECT string_agg(a.attname, ', ' ORDER BY place)
            FROM unnest(k.conkey) WITH ORDINALITY AS u(attnum, place)
            JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.attnum
          ) || ') to ' || r.relname || ' (' || (
            SELECT string_agg(a.attname, ', ' ORDER BY place)
            FROM unnest(k.confkey) WITH ORDINALITY AS u(attnum, place)
            JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.attnum
          ) || ') on delete ' || ${action('k.confdeltype')} || ' on update ' || ${action('k.confupdtype')}
          || CASE WHEN k.confmatchtype = 's' THEN '' ELSE ' match ' || k.confmatchtype::text END
          || CASE WHEN k.condeferrable THEN ' deferrable' ELSE '' END
          || CASE WHEN k.convalidated THEN '' ELSE ' not valid' END AS fact
   FROM pg_constraint k JOIN pg_class t ON t.oid = k.conrelid JOIN pg_class r ON r.oid = k.confrelid
   WHERE k.connamespace = 'public'::regnamespace AND k.contype = 'f'`,
  // Not null belongs to its column (PostgreSQL 18 also has a constraint for it), and keys to their index.
  `SELECT 'constraint ' || k.conname || ' of ' || t.relname || ': ' || pg_get_constraintdef(k.oid) AS fact
   FROM pg_constraint k JOIN pg_class t ON t.oid = k.conrelid
   WHERE k.connamespace = 'public'::regnamespace AND k.contype NOT IN ('f', 'n', 'p')`,
  `SELECT 'sequence ' || c.relname || ': ' || format_type(s.seqtypid, NULL)
          || coalesce(' of ' || t.relname || '.' || a.attname, '') AS fact
   FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid
   LEFT JOIN pg_depend d ON d.objid = c.oid AND d.deptype = 'a' AND d.refobjsubid > 0
   LEFT JOIN pg_class t ON t.oid = d.refobjid
   LEFT JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
   WHERE c.relnamespace = 'public'::regnamespace`,
  `SELECT 'range of ' || c.relname || ': ' || s.seqmin || ' to ' || s.seqmax AS fact
   FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid
   WHERE c.relnamespace = 'public'::regnamespace
     AND (s.seqstart, s.seqincrement, s.seqmin, s.seqmax, s.seqcycle) <>
         (1, 1, 1, CASE s.seqtypid WHEN 'int'::regtype THEN 2147483647 ELSE 9223372036854775807 END, false)`,
  `SELECT 'enum ' || t.typname || ': ' || string_agg(e.enumlabel, ', ' ORDER BY e.enumsortorder) AS fact
   FROM pg_type t JOIN pg_enum e ON e.enumtypid = t.oid
   WHERE t.typnamespace = 'public'::regnamespace GROUP BY t.oid, t.typname`,
  // All other objects. A table's row type and every array type belong to another type.
  `SELECT 'type ' || t.typname AS fact FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
   WHERE t.typnamespace = 'public'::regnamespace AND t.typcategory <> 'A' AND t.typtype <> 'e' AND (c.oid IS NULL OR c.relkind = 'c')`,
  `SELECT 'options of ' || relname || ': ' || array_to_string(reloptions, ', ') AS fact
   FROM pg_class WHERE relnamespace = 'public'::regnamespace AND reloptions IS NOT NULL`,
  `SELECT 'function ' || oid::regprocedure AS fact FROM pg_proc WHERE pronamespace = 'public'::regnamespace`,
  `SELECT 'trigger: ' || pg_get_triggerdef(oid, true) AS fact FROM pg_trigger WHERE NOT tgisinternal`,
  `SELECT 'policy ' || polname AS fact FROM pg_policy`,
  `SELECT 'rule ' || rulename AS fact FROM pg_rules WHERE schemaname = 'public'`,
  `SELECT 'extension ' || extname AS fact FROM pg_extension WHERE extname <> 'plpgsql'`,
];

function action(column: string): string {
  return `CASE ${column} WHEN 'a' THEN 'noaction' WHEN 'r' THEN 'restrict' WHEN 'c' THEN 'cascade' WHEN 'n' THEN 'setnull' ELSE 'setdefault' END`;
}
