import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import type { Json } from '../support/app.js';
import type { Credentials } from '../support/command.js';
import { ACT_NAMES, type Outcome, type Step, stepOf, VOCABULARY, type Vocabulary } from './acts.js';
import { type Copy, compare, compareCopy, follow, requireSame } from './compare.js';
import { emptyProject, type Project } from './model.js';
import { drawnOf, makeAct, mostlyDone, print } from './runner.js';
import type { Service } from './service.js';

/**
 * Several writers act at once on one project, each on persons of its own, while the server or its database is killed. An act without an answer is sent
 * again with its key, until it has one: so it is done once, whether it was whole before or not at all. Then everything is as the model says, and the feed
 * tells of each person what it tells of the same acts without a kill.
 */

/** Acts on the whole project, of which others would not be as the model says; imports, of which one at a time runs, are in faults/crashes.test.ts. */
const OF_ALL = [
  'bans that end soon have ended',
  'bans that have ended are deleted',
  'import lines',
  'move to another project',
  'undo an import',
  'purge removed users',
];
const ACTS_OF_WRITERS = ACT_NAMES.filter((name) => !OF_ALL.includes(name));
/** Most of those that would be refused are left out. */
const DRAWN_FOR_AN_ACT = 4;
/** An act takes milliseconds, and a start seconds. */
const PATIENCE_MS = 120_000;

/** A service that is away at times. */
export interface Away {
  /** Where it is now; the address may change with a start. */
  url(): string;
  readonly credentials: Credentials;
  /** What `userdir totals check` finds wrong. */
  wrongTotals(): Promise<object[]>;
  /** All bans, oldest first. */
  listBans(): Promise<Json[]>;
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Json;
}

/** Sends a request until it is answered by more than that the service is away. */
async function send({ url, credentials }: Away, path: string, init: RequestInit): Promise<Answer> {
  const headers = {
    'service-app-id': credentials.app_id,
    'service-app-secret': credentials.app_secret,
    ...(init.headers as Record<string, string> | undefined),
  };
  for (const end = Date.now() + PATIENCE_MS; ; await sleep(20)) {
    const answer = await fetch(url() + path, { ...init, headers })
      .then(async (response) => ({
        status: response.status,
        headers: response.headers,
        body: (await response.json()) as Json,
      }))
      .catch(() => null);
    const isAway = answer === null || answer.status >= 500 || answer.body.errors?.[0].extensions.code === 'UNAVAILABLE';
    if (!isAway) return answer;
    if (Date.now() > end) throw new Error(`${path} was not answered in time: ${JSON.stringify(answer?.body)}`);
  }
}

/** A mutation with a key for all the times that it is sent; one that has a key already keeps it. */
function withKey(document: string, variables: object): { query: string; variables: object } {
  if (document.includes('idempotencyKey')) return { query: document, variables };
  const query = document
    .replace('mutation (', 'mutation ($idempotencyKey: String!, ')
    .replace(/(\{ \w+\()/, '$1idempotencyKey: $idempotencyKey, ');
  return { query, variables: { ...variables, idempotencyKey: randomUUID() } };
}

/** The service as writers use it: over GraphQL and REST. */
function serviceOf(away: Away): Service {
  const graphql = async (query: string, variables: object = {}) => {
    const init = { method: 'POST', headers: { 'content-type': 'application/json' } };
    return (await send(away, '/graphql', { ...init, body: JSON.stringify({ query, variables }) })).body;
  };
  const ofAll = () => Promise.reject(new Error('That is no act of several writers.'));
  return {
    async mutate(document, given) {
      const { query, variables } = withKey(document, given);
      const [error] = (await graphql(query, variables)).errors ?? [];
      return error === undefined
        ? { code: 'OK', message: '' }
        : { code: error.extensions.code, message: error.message };
    },
    async rest(path, init): Promise<Outcome> {
      const { status, headers, body } = await send(away, path, {
        ...init,
        headers: { 'idempotency-key': randomUUID() },
      });
      if (status === 200) return { code: 'OK', message: '' };
      return { code: headers.get('userdir-error-code') ?? String(status), message: body.error };
    },
    async query(document, variables) {
      const { data, errors } = await graphql(document, variables);
      if (errors !== undefined) throw new Error(JSON.stringify(errors));
      return data;
    },
    async get(path) {
      const { status, body } = await send(away, path, {});
      if (status !== 200) throw new Error(`${path}: ${status} ${JSON.stringify(body)}`);
      return body.result;
    },
    wrongTotals: away.wrongTotals,
    listBans: away.listBans,
    ...{ command: ofAll, importLines: ofAll, undoImport: ofAll, move: ofAll, endBans: ofAll, sweep: ofAll },
  };
}

/** What the persons of a writer are called, in place of the words that all acts share. */
function wordsOf(writer: number): { say<Value>(value: Value): Value; vocabulary: Vocabulary } {
  const own = (word: string, index: number) => {
    const number = 100 * (writer + 1) + index;
    if (word.startsWith('0x')) return ethereumAddress(number);
    if (word.length > 50) return stellarAddress(number);
    return word.includes('@') ? `${writer}.${word}` : `${word}.${writer}`;
  };
  const { emails, addresses, externalIds, identities } = VOCABULARY;
  const shared = new Set([...emails, ...addresses, ...externalIds, ...identities.map(({ authValue }) => authValue)]);
  const words = new Map([...shared].map((word, index) => [word, own(word, index)]));
  /** An email or an Ethereum address may be in capitals. */
  const said = (word: string): string => {
    const known = words.get(word);
    if (known !== undefined) return known;
    const folded = word.includes('@') ? word.toLowerCase() : word.toLowerCase().replace('0X', '0x');
    const other = words.get(folded);
    if (other === undefined) return word;
    return other.startsWith('0x') ? `0x${other.slice(2).toUpperCase()}` : other.toUpperCase();
  };
  const say = (value: unknown): unknown => {
    if (typeof value === 'string') return said(value);
    if (Array.isArray(value)) return value.map(say);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, say(each)]));
  };
  return { say: say as <Value>(value: Value) => Value, vocabulary: say(VOCABULARY) as Vocabulary };
}

/** A writer gives no commands. */
function ofWriter({ name, input }: Step): Step {
  const given = input as { via?: string };
  return given.via === 'command' ? { name, input: { ...given, via: 'graphql' } } : { name, input };
}

export interface Writer {
  readonly vocabulary: Vocabulary;
  readonly steps: readonly Step[];
}

/** The writers of a seed. */
export function writersOf({ writers, acts, seed }: { writers: number; acts: number; seed: number }): Writer[] {
  const drawn = drawnOf(stepOf(ACTS_OF_WRITERS));
  const most = DRAWN_FOR_AN_ACT * acts;
  const sequences = fc.sample(
    fc.array(drawn, { minLength: most, maxLength: most, size: 'max' }).map((steps) => mostlyDone(steps, acts)),
    { numRuns: writers, seed },
  );
  return sequences.map((steps, writer) => {
    const { say, vocabulary } = wordsOf(writer);
    return { vocabulary, steps: steps.map(ofWriter).map((step) => ({ name: step.name, input: say(step.input) })) };
  });
}

/** Makes the acts of a writer, one after the other. Returns the model after them. */
async function write(service: Service, { steps }: Writer, count: () => void): Promise<Project> {
  let project = emptyProject();
  for (const [index, step] of steps.entries()) {
    try {
      project = (await makeAct(service, project, step, index + 1)).project;
    } catch (error) {
      throw new Error(`${error}\n${print(steps.slice(0, index + 1))}`);
    }
    count();
  }
  return project;
}

/** Makes all acts at once, and then compares everything. Returns the models of the writers. */
export async function runWriters(
  away: Away,
  writers: readonly Writer[],
  count: () => void = () => undefined,
): Promise<Project[]> {
  const service = serviceOf(away);
  const projects = await Promise.all(writers.map((writer) => write(service, writer, count)));
  const all: Project = {
    users: projects.flatMap(({ users }) => users),
    bans: projects.flatMap(({ bans }) => bans),
    imports: [],
  };
  await compare(
    service,
    all,
    writers.map(({ vocabulary }) => vocabulary),
  );
  const copy: Copy = { cursor: null, users: new Map() };
  await follow(service, copy);
  compareCopy(copy, all);
  requireSame('totals check', await service.wrongTotals(), []);
  return projects;
}

/** What the feed tells of each person of each writer, in order, and of those whom it does not name. */
export async function told(away: Away, projects: readonly Project[]): Promise<Json> {
  const { query } = serviceOf(away);
  const places = new Map(
    projects.flatMap(({ users }, writer) => users.map(({ id }, place) => [id, `person ${place} of writer ${writer}`])),
  );
  const byPerson: Record<string, string[]> = {};
  const add = (person: string, change: string) => {
    byPerson[person] = [...(byPerson[person] ?? []), change];
  };
  for (let after: string | null = null, goesOn = true; goesOn; ) {
    const { changes }: Json = await query(
      'query ($after: String) { changes(first: 1000, after: $after) { nodes { type userId fields } pageInfo { endCursor hasNextPage } } }',
      { after },
    );
    for (const { type, userId, fields } of changes.nodes) add(places.get(userId) ?? 'of no user', `${type} ${fields}`);
    after = changes.pageInfo.endCursor;
    goesOn = changes.pageInfo.hasNextPage;
  }
  // Of two writers, either may come first.
  byPerson['of no user']?.sort();
  return byPerson;
}
