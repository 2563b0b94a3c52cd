import { SYSTEM_TITLES, type SystemName } from '../../domain/systems.js';
import type { Blocked, Declaration, Items, LoginForm, LoginKind, Source, Verification } from './declaration.js';
import { idOf, type Login, type Person, type System } from './person.js';
import { type Fields, isEmpty, objectOf, objectsOf, textOf, truthOf } from './values.js';

/* Reads the people of a system by its declaration. */

/** Reads a value of an item of a record. */
type Read<Value = unknown> = (item: Fields, record: Fields) => Value;

/** Makes what reads a source; without a source, it reads nothing. */
type MakeRead = (source: Source | undefined) => Read;

/** The system of a declaration. The fields that it knows follow from what is read of them. */
export function declaredSystem(name: SystemName, declaration: Declaration): System {
  const fields = new Set([...declaration.idFields, ...(declaration.otherFields ?? [])]);
  const readOfRecord: MakeRead = (source) => {
    for (const path of pathsOf(source)) fields.add(path.split('.', 1)[0] as string);
    return readSource(source);
  };
  const personOf = readPerson(declaration, readOfRecord);
  return {
    ...declaration,
    name,
    title: SYSTEM_TITLES[name],
    fields: [...fields],
    toPerson(record) {
      const shaped = declaration.reshape?.(record) ?? record;
      return declaration.refuse?.(shaped) ?? personOf(shaped);
    },
  };
}

const pathsOf = (source: Source | undefined): readonly string[] =>
  typeof source === 'function' ? [] : [source ?? []].flat();

const readSource: MakeRead = (source) => {
  if (typeof source === 'function') return source;
  const [read = () => null, ...others] = pathsOf(source).map(readPath);
  if (others.length === 0) return read;
  return (item, record) => {
    let value = read(item, record);
    for (const other of others) value ??= other(item, record);
    return value;
  };
};

function readPath(path: string): Read {
  const [field = path, ...names] = path.split('.');
  if (names.length === 0) return (item) => item[field];
  return (item) => names.reduce<unknown>((object, name) => objectOf(object)[name], item[field]);
}

function readPerson(declaration: Declaration, read: MakeRead): (record: Fields) => Person {
  const logins = declaration.logins.map((form) => (typeof form === 'function' ? form : readLogins(form, read)));
  const address = read(declaration.email?.address);
  const isVerified = readVerified(declaration.email ?? {}, read);
  const accounts = (declaration.accounts ?? []).map((form) => readItems(form, read, (ofItem) => ofItem(form.address)));
  const createdAt = read(declaration.createdAt);
  const lastLogin = read(declaration.lastLogin);
  const loginCount = read(declaration.loginCount);
  const blocked = readBlocked(declaration.blocked, read);
  const isGuest = read(declaration.isGuest);
  const metadata = readMetadata(declaration, read);
  const notKept = (declaration.notKept ?? []).map(({ what, ...items }) =>
    readItems(items, read, () => (typeof what === 'string' ? () => what : what)),
  );
  return (record) => ({
    id: declaration.id?.(record) ?? idOf(record, declaration.idFields),
    logins: logins.flatMap((loginsOf) => loginsOf(record)),
    email: { address: address(record, record), verified: isVerified(record, record) },
    accounts: accounts.flatMap((accountsOf) => accountsOf(record)),
    createdAt: createdAt(record, record),
    lastLogin: lastLogin(record, record),
    columns: { login_count: loginCount(record, record) },
    blocked: blocked(record),
    metadata: metadata(record),
    isGuest: truthOf(isGuest(record, record)) === true,
    notKept: notKept.flatMap((nounsOf) => nounsOf(record)),
  });
}

/** Reads something of the record, or of each item of a list in it. `make` gets what reads a source of an item. */
function readItems<Value>(
  { each, if: condition }: Items,
  read: MakeRead,
  make: (ofItem: MakeRead) => Read<Value>,
): (record: Fields) => Value[] {
  const list = read(each);
  const ofItem = each === undefined ? read : readSource;
  const isMeant = ofItem(condition);
  const made = make(ofItem);
  return (record) => {
    const items = each === undefined ? [record] : objectsOf(list(record, record));
    return items
      .filter((item) => condition === undefined || truthOf(isMeant(item, record)) === true)
      .map((item) => made(item, record));
  };
}

function readLogins(form: LoginForm, read: MakeRead): (record: Fields) => Login[] {
  return readItems(form, read, (ofItem) => {
    const methodOf = readMethod(form, ofItem);
    const createdAt = ofItem(form.createdAt);
    const lastLogin = ofItem(form.lastLogin);
    function readKind(kind: LoginKind): Read<Login> {
      const by = kind.method === undefined && kind.methodIn === undefined ? methodOf : readMethod(kind, ofItem);
      const value = ofItem(kind.value);
      const email = ofItem(kind.email);
      const isVerified = readVerified(kind, ofItem);
      return (item, record) => ({
        by: by(item, record),
        value: value(item, record),
        email: email(item, record),
        verified: isVerified(item, record),
        createdAt: createdAt(item, record),
        lastLogin: lastLogin(item, record),
      });
    }
    const kindOf = ofItem(form.kindIn ?? form.methodIn);
    const kinds = new Map(Object.entries(form.kinds ?? {}).map(([name, kind]) => [name, readKind(kind)]));
    const ofOthers = readKind(form);
    return (item, record) => (kinds.get(textOf(kindOf(item, record))) ?? ofOthers)(item, record);
  });
}

function readMethod({ method, methodIn }: LoginKind, read: MakeRead): Read<string> {
  if (method !== undefined) return () => method;
  const name = read(methodIn);
  return (item, record) => textOf(name(item, record));
}

function readVerified({ verified, verifiedIfUnsaid, verifiedAt }: Verification, read: MakeRead): Read<boolean | null> {
  if (typeof verified === 'boolean') return () => verified;
  if (verifiedAt !== undefined) {
    const date = read(verifiedAt);
    return (item, record) => !isEmpty(date(item, record));
  }
  const said = read(verified);
  return (item, record) => truthOf(said(item, record)) ?? verifiedIfUnsaid ?? null;
}

/** True, the date until when the person is blocked, or what says nothing of it. */
function readBlocked(blocked: Blocked | undefined, read: MakeRead): (record: Fields) => unknown {
  if (blocked === undefined) return () => false;
  if ('until' in blocked) {
    const until = read(blocked.until);
    return (record) => until(record, record);
  }
  const isReason = 'if' in blocked;
  const truth = read(isReason ? blocked.if : blocked.unless);
  return (record) => truthOf(truth(record, record)) === isReason;
}

function readMetadata(declaration: Declaration, read: MakeRead): (record: Fields) => Fields {
  const all = read(declaration.metadataIn);
  const objects = readNamed(declaration.metadataObjects ?? {}, read);
  const values = readNamed(declaration.metadata ?? {}, read);
  return (record) => {
    const metadata: Record<string, unknown> = { ...objectOf(all(record, record)) };
    for (const [name, object] of objects) metadata[name] = objectOf(object(record, record));
    for (const [name, value] of values) metadata[name] = value(record, record);
    return metadata;
  };
}

function readNamed(sources: Readonly<Record<string, Source>>, read: MakeRead): [name: string, read: Read][] {
  return Object.entries(sources).map(([name, source]) => [name, read(source)]);
}
