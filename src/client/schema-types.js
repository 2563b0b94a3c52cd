/* Makes generated/schema.ts from schema.graphql: what the client asks, and the types of it. A field that is added to a type is asked for, too. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import {
  buildSchema,
  getNamedType,
  isEnumType,
  isInputObjectType,
  isLeafType,
  isListType,
  isNonNullType,
  isObjectType,
} from 'graphql';
import { COUNTED_METHODS } from '../../dist/domain/auth-methods.js';
import { STATE_FILTER_NAMES } from '../../dist/domain/state-filters.js';

const OPERATIONS =
  `caller changes bans webhooks user userByExternalId userByIdentity usersByIds usersByExternalIds usersByIdentities usersByEmails usersByPrefix findUser
  userCount userPage users searchUsers verifyWallet verifyWallets
  recordLogin createUser updateUser deleteUser restoreUser banUser unbanUser removeUsers banUsers banIdentity unbanIdentity mergeUsers linkIdentity unlinkIdentity unlinkAccount
  addWebhook pauseWebhook resumeWebhook rotateWebhookSecret removeWebhook`.split(/\s+/);
/** The same with fewer fields. */
const VARIANTS = { uncountedUsers: { of: 'users', without: 'UserConnection.totalCount' } };
/** A field that would lead back to a user, or repeats another one. */
const LEFT_OUT = ['Ban.user', 'Change.user', 'UserConnection.edges', 'ChangeConnection.edges', 'BanConnection.edges'];
const SCALARS = {
  Boolean: 'boolean',
  DateTime: 'string',
  Float: 'number',
  ID: 'string',
  Int: 'number',
  JSON: 'Readonly<Record<string, unknown>>',
  String: 'string',
};

const schema = buildSchema(readFileSync(new URL('../../schema.graphql', import.meta.url), 'utf8'));
const fieldsOf = (type, without = '') =>
  Object.values(type.getFields()).filter(
    ({ name, deprecationReason }) => !deprecationReason && ![...LEFT_OUT, without].includes(`${type.name}.${name}`),
  );

/** Every field of a type, with the fields of what it leads to. */
function selectionOf(type, without) {
  const named = getNamedType(type);
  if (isLeafType(named)) return '';
  return `{${fieldsOf(named, without)
    .map((field) => field.name + selectionOf(field.type, without))
    .join(' ')}}`;
}

/** A type in TypeScript. What is given may also be undefined where it may be null. */
function typed(type, isInput) {
  if (!isNonNullType(type)) return `${typedValue(type, isInput)} | null`;
  return typedValue(type.ofType, isInput);
}
function typedValue(type, isInput) {
  if (isListType(type)) return `readonly (${typed(type.ofType, isInput)})[]`;
  if (isInput && type.name === 'ID') return 'string | number';
  return SCALARS[type.name] ?? type.name;
}

function declareMembers(type, isInput) {
  const members = (isInput ? Object.values(type.getFields()) : fieldsOf(type)).map(
    ({ name, description, type: of }) => {
      const isOptional = isInput && !isNonNullType(of);
      return `${comment(description)}readonly ${name}${isOptional ? '?' : ''}: ${typed(of, isInput)}${isOptional ? ' | undefined' : ''};`;
    },
  );
  return `{\n${members.join('\n')}\n}`;
}
const comment = (text) => (text ? `/** ${text.replaceAll('*/', '* /').replaceAll(/\s+/g, ' ')} */\n` : '');

function declare(type) {
  const head = `${comment(type.description)}export`;
  if (isEnumType(type))
    return `${head} type ${type.name} = ${type
      .getValues()
      .map(({ name }) => `'${name}'`)
      .join(' | ')};`;
  if (!type.isOneOf) return `${head} interface ${type.name} ${declareMembers(type, isInputObjectType(type))}`;
  const names = Object.keys(type.getFields());
  const forms = names.map(
    (one) => `{ ${names.map((name) => (name === one ? `${name}: string` : `${name}?: never`)).join('; ')} }`,
  );
  return `${head} type ${type.name} = ${forms.join(' | ')};`;
}

const roots = [...OPERATIONS, ...Object.keys(VARIANTS)].map((name) => {
  const { of = name, without } = VARIANTS[name] ?? {};
  const kind = of in schema.getQueryType().getFields() ? 'query' : 'mutation';
  const field = (kind === 'query' ? schema.getQueryType() : schema.getMutationType()).getFields()[of];
  if (field === undefined) throw new Error(`schema.graphql has no field ${of}.`);
  return { name, kind, field, without };
});

const types = new Set();
for (const { field } of roots) for (const { type } of [field, ...field.args]) types.add(getNamedType(type));
for (const type of types) {
  const fields = isObjectType(type) ? fieldsOf(type) : isInputObjectType(type) ? Object.values(type.getFields()) : [];
  for (const field of fields) types.add(getNamedType(field.type));
}
const declared = [...types].filter(({ name }) => !(name in SCALARS)).sort((a, b) => (a.name < b.name ? -1 : 1));

const signatures = roots.map(({ name, field, without }) => {
  const given = field.args.map(({ name: arg, type, defaultValue }) => {
    const isOptional = !isNonNullType(type) || defaultValue !== undefined;
    return `${arg}${isOptional ? '?' : ''}: ${typed(type, true)}${isOptional ? ' | undefined' : ''}`;
  });
  return `readonly ${name}: { given: { ${given.join('; ')} }; answer: ${without ? `Omit<${typed(field.type, false)}, '${without.split('.')[1]}'>` : typed(field.type, false)} };`;
});
const operations = roots.map(({ name, kind, field, without }) => {
  const given = Object.fromEntries(field.args.map(({ name: arg, type }) => [arg, String(type)]));
  const path = name === field.name ? name : `${name}:${field.name}`;
  return `${name}: ${JSON.stringify({ kind, path, given, fields: selectionOf(field.type, without) })},`;
});

mkdirSync(new URL('generated/', import.meta.url), { recursive: true });
writeFileSync(
  new URL('generated/schema.ts', import.meta.url),
  `/* Made by ../schema-types.js. */
${declared.map(declare).join('\n\n')}

/** What each operation is given, and what it answers. */
export interface Operations {
${signatures.join('\n')}
}

export const OPERATIONS: Record<keyof Operations, { kind: string; path: string; given: Record<string, string>; fields: string }> = {
${operations.join('\n')}
};

/** The fields of a filter by which the service does not count, but for a list of these methods. */
export const UNCOUNTED_FILTERS = ${JSON.stringify(STATE_FILTER_NAMES)} as const;
export const COUNTED_METHODS: readonly string[] = ${JSON.stringify(COUNTED_METHODS)};
`,
);
