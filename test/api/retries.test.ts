import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { buildSchema, type GraphQLObjectType, getNamedType, isLeafType, isObjectType } from 'graphql';
import { beforeEach, describe, expect, test } from 'vitest';
import { Prisma } from '#dist/db/statements.js';
import { stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { ROOT } from '../support/checkout.js';
import { codesOf } from '../support/graphql.js';

/** Every change that takes an idempotency key, after each outcome of the first try. */

const app = useTestApp();
const schema = buildSchema(readFileSync(join(ROOT, 'schema.graphql'), 'utf8'));
const mutations = Object.values(schema.getMutationType()?.getFields() ?? {}).filter(({ args }) =>
  args.some(({ name }) => name === 'idempotencyKey'),
);

let project: TestProject;
let headers: Record<string, string>;
let serial = 0;
beforeEach(async () => {
  project = await app.createProject();
  const { projects, secrets } = app.context.services;
  const scope = await projects.getScope(project.appId);
  const { appSecret } = await secrets.addSecret(scope, {
    label: 'all',
    scopes: ['read', 'write', 'webhooks'],
    expiresInMs: null,
  });
  headers = {
    'service-app-id': project.appId,
    'service-app-secret': appSecret,
    'content-type': 'application/json',
  };
});

async function send(query: string, variables: Json = {}): Promise<Json> {
  const body = JSON.stringify({ query, variables });
  return (await fetch(`${app.url}/graphql`, { method: 'POST', headers, body })).json();
}

const next = () => {
  serial += 1;
  return `value ${serial}`;
};
const passkey = (value: string) => `authMethod: "passkey", authValue: "${value}"`;

async function change(call: string): Promise<Json> {
  const { data, errors } = await send(`mutation { change: ${call} }`);
  expect(errors).toBeUndefined();
  return data.change;
}
const addUser = async (value = next(), more = ''): Promise<string> =>
  (await change(`recordLogin(input: { ${passkey(value)} ${more} }) { user { id } }`)).user.id;
const addWebhook = async (): Promise<string> =>
  (await change(`addWebhook(url: "https://hooks.example.com/${++serial}", description: "") { webhook { id } }`)).webhook
    .id;

/** The arguments of a request that can be done, those of another one, and the user without whom it fails. */
interface Request {
  readonly asked: string;
  readonly other: string;
  readonly userId?: string;
}

const ofUser = (id: string, more: [asked: string, other: string] = ['', '']): Request => ({
  asked: `id: "${id}" ${more[0]}`,
  other: more[0] === more[1] ? `id: "${Number(id) + 1_000}"` : `id: "${id}" ${more[1]}`,
  userId: id,
});
const ofWebhook = (id: string): Request => ({ asked: `id: "${id}"`, other: `id: "${Number(id) + 1_000}"` });

/** One for each mutation with a key. */
const REQUESTS: Record<string, () => Promise<Request>> = {
  addWebhook: async () => ({
    asked: `url: "https://hooks.example.com/${++serial}", description: ""`,
    other: `url: "https://hooks.example.com/${++serial}", description: ""`,
  }),
  banIdentity: async () => ({
    asked: `identity: { ${passkey(next())} }`,
    other: `identity: { ${passkey(next())} }`,
  }),
  banUser: async () => ofUser(await addUser(), ['reason: "one"', 'reason: "other"']),
  banUsers: async () => ({ asked: `ids: ["${await addUser()}"]`, other: `ids: ["${await addUser()}"]` }),
  createUser: async () => ({ asked: `input: { ${passkey(next())} }`, other: `input: { ${passkey(next())} }` }),
  deleteUser: async () => ofUser(await addUser()),
  linkIdentity: async () => {
    const id = await addUser();
    const input = () => `userId: "${id}", input: { ${passkey(next())} }`;
    return { asked: input(), other: input(), userId: id };
  },
  mergeUsers: async () => {
    const [from, into] = [await addUser(), await addUser()];
    return { asked: `from: "${from}", into: "${into}"`, other: `from: "${into}", into: "${from}"`, userId: into };
  },
  pauseWebhook: async () => ofWebhook(await addWebhook()),
  recordLogin: async () => ({ asked: `input: { ${passkey(next())} }`, other: `input: { ${passkey(next())} }` }),
  removeUsers: async () => ({ asked: `ids: ["${await addUser()}"]`, other: `ids: ["${await addUser()}"]` }),
  removeWebhook: async () => ofWebhook(await addWebhook()),
  restoreUser: async () => {
    const id = await addUser();
    await change(`deleteUser(id: "${id}") { id }`);
    return { asked: `id: "${id}"`, other: `id: "${Number(id) + 1_000}"` };
  },
  resumeWebhook: async () => {
    const id = await addWebhook();
    await change(`pauseWebhook(id: "${id}") { webhook { id } }`);
    return ofWebhook(id);
  },
  rotateWebhookSecret: async () => {
    const id = await addWebhook();
    return { asked: `id: "${id}", overlapSeconds: 60`, other: `id: "${id}", overlapSeconds: 61` };
  },
  unbanIdentity: async () => {
    const value = next();
    await change(`banIdentity(identity: { ${passkey(value)} }) { ban { authValue } }`);
    return { asked: `identity: { ${passkey(value)} }`, other: `identity: { ${passkey(next())} }` };
  },
  unbanUser: async () => {
    const id = await addUser();
    await change(`banUser(id: "${id}") { user { id } }`);
    return ofUser(id);
  },
  unlinkAccount: async () => {
    const address = stellarAddress(++serial);
    const id = await addUser(next(), `accounts: [{ network: STELLAR, publicKey: "${address}" }]`);
    const of = (account: string) => `userId: "${id}", address: "${account}"`;
    return { asked: of(address), other: of(stellarAddress(++serial)), userId: id };
  },
  unlinkIdentity: async () => {
    const [id, value] = [await addUser(), next()];
    await change(`linkIdentity(userId: "${id}", input: { ${passkey(value)} }) { user { id } }`);
    const of = (identity: string) => `userId: "${id}", identity: { ${passkey(identity)} }`;
    return { asked: of(value), other: of(next()), userId: id };
  },
  updateUser: async () => {
    const id = await addUser();
    const of = (externalId: string) => `id: "${id}", input: { externalId: "${externalId}" }`;
    return { asked: of(next()), other: of(next()), userId: id };
  },
};

/** What an answer is compared by: what the payload has, and the ID or the value of each object in it. */
function selectionOf(name: string): string {
  const payload = getNamedType(schema.getMutationType()?.getFields()[name]?.type) as GraphQLObjectType;
  const fields = Object.values(payload.getFields()).map((field) => {
    const type = getNamedType(field.type);
    if (isLeafType(type)) return field.name;
    const names = isObjectType(type) ? Object.keys(type.getFields()) : [];
    return `${field.name} { ${names.find((each) => ['id', 'authValue'].includes(each))} }`;
  });
  return `{ ${fields.join(' ')} }`;
}

const ask = (name: string, args: string, key: string) =>
  send(`mutation ($key: String) { answer: ${name}(${args}, idempotencyKey: $key) ${selectionOf(name)} }`, { key });

/** What the project has seen: each change of its users, and each act that the audit trail has. */
async function countEffects(): Promise<number> {
  const [row] = await app.context.db.query<{ effects: number }>(
    Prisma.sql`
      SELECT ((SELECT count(*) FROM changes c WHERE c.project_id = p.id)
        + (SELECT count(*) FROM audit_log a WHERE a.project_id = p.id))::int AS effects
      FROM projects p
      WHERE p.app_id = ${project.appId}`,
  );
  return row?.effects ?? 0;
}

/** How many effects some work has. */
async function effectsOf(work: () => Promise<unknown>): Promise<number> {
  const before = await countEffects();
  await work();
  return (await countEffects()) - before;
}

test('each change with a key is tried', () => {
  expect(Object.keys(REQUESTS).sort()).toEqual(mutations.map(({ name }) => name).sort());
});

/** What the same request is without a key, once it was done: done again, nothing, or an error. */
const REPEATED: Record<string, string> = {
  ...Object.fromEntries(mutations.map(({ name }) => [name, 'nothing'])),
  addWebhook: 'again',
  createUser: 'CONFLICT',
  deleteUser: 'NOT_FOUND',
  mergeUsers: 'NOT_FOUND',
  removeWebhook: 'NOT_FOUND',
  restoreUser: 'CONFLICT',
  resumeWebhook: 'again',
  rotateWebhookSecret: 'again',
  unlinkAccount: 'NOT_FOUND',
  unlinkIdentity: 'NOT_FOUND',
};

describe.each(Object.entries(REQUESTS))('%s', (name, arrange) => {
  test('that was done and is asked without a key is what it would be for anyone', async () => {
    const { asked } = await arrange();
    const query = `mutation { answer: ${name}(${asked}) ${selectionOf(name)} }`;
    expect((await send(query)).errors).toBeUndefined();
    let codes: string[] = [];
    const effects = await effectsOf(async () => {
      codes = codesOf(await send(query));
    });
    expect(codes[0] ?? (effects > 0 ? 'again' : 'nothing')).toBe(REPEATED[name]);
    if (codes.length > 0) expect(effects).toBe(0);
  });

  test('that was done is answered again, and changes nothing more', async () => {
    const [{ asked, other }, key] = [await arrange(), next().replace(' ', '-')];
    const first = await ask(name, asked, key);
    expect(first.errors).toBeUndefined();
    const effects = await effectsOf(async () => {
      for (let time = 0; time < 2; time += 1) expect((await ask(name, asked, key)).data).toEqual(first.data);
      expect(codesOf(await ask(name, other, key))).toEqual(['IDEMPOTENCY_KEY_REUSED']);
    });
    expect(effects).toBe(0);
  });

  test('that comes many times at once is done once, and each is answered', async () => {
    const [alone, together, key] = [await arrange(), await arrange(), next().replace(' ', '-')];
    const once = await effectsOf(() => ask(name, alone.asked, `${key}-alone`));
    expect(once).toBeGreaterThan(0);
    const effects = await effectsOf(async () => {
      const answers = await Promise.all(Array.from({ length: 6 }, () => ask(name, together.asked, key)));
      expect(answers.map(({ errors }) => errors)).toEqual(new Array(6).fill(undefined));
      expect(new Set(answers.map(({ data }) => JSON.stringify(data))).size).toBe(1);
    });
    expect(effects).toBe(once);
  });

  test('that failed is done by the next try', async ({ skip }) => {
    const [{ asked, userId }, key] = [await arrange(), next().replace(' ', '-')];
    if (userId === undefined) return skip();
    await change(`deleteUser(id: "${userId}") { id }`);
    expect(codesOf(await ask(name, asked, key))).toEqual(['NOT_FOUND']);
    await change(`restoreUser(id: "${userId}") { user { id } }`);
    const done = await effectsOf(async () => {
      expect((await ask(name, asked, key)).errors).toBeUndefined();
    });
    expect(done).toBeGreaterThan(0);
  });

  test('is answered also when its user was removed since', async ({ skip }) => {
    const [{ asked, userId }, key] = [await arrange(), next().replace(' ', '-')];
    if (userId === undefined || name === 'deleteUser') return skip();
    const first = await ask(name, asked, key);
    expect(first.errors).toBeUndefined();
    await change(`deleteUser(id: "${userId}") { id }`);
    const effects = await effectsOf(async () => {
      expect(await ask(name, asked, key)).toEqual({ data: first.data });
    });
    expect(effects).toBe(0);
  });
});
