import { deleteEndedBans } from '#dist/users/bans.sql.js';
import { type Json, type TestApp, type TestProject, withoutIds } from '../support/app.js';
import { userdir } from '../support/command.js';
import type { Outcome, Sent } from './acts.js';
import type { Import } from './model.js';

/** The service, as the acts and the comparison ask it: over GraphQL, over REST and by the command. */
export interface Service {
  /** Sends a mutation, and says how it came out. */
  mutate(document: string, variables: object): Promise<Outcome>;
  rest(path: string, init?: RequestInit): Promise<Outcome>;
  /** Runs `userdir` for this project. */
  command(...args: string[]): Promise<Outcome>;
  importLines(given: Import, via: Sent['via']): Promise<Outcome>;
  undoImport(id: string, via: Sent['via']): Promise<Outcome>;
  /** Exports the project, imports that into a new one, in which everything goes on, and exports it again. */
  move(): Promise<Outcome>;
  /** Turns the clock to the end of the bans that end at `instant`. */
  endBans(instant: string): Promise<Outcome>;
  /** Deletes the bans that have ended, as the service does from time to time. */
  sweep(): Promise<Outcome>;
  /** What `userdir totals check` finds wrong. */
  wrongTotals(): Promise<object[]>;
  /** All bans, oldest first, as the dashboard and `userdir user bans` page through them. */
  listBans(limit: number): Promise<Json[]>;
  /** Asks; fails where anything is refused. */
  query(document: string, variables?: object): Promise<Json>;
  get(path: string, init?: RequestInit): Promise<Json>;
}

const OK = { code: 'OK', message: '' };

/** The column has milliseconds, to which an instant is rounded. */
const ENDED = "SET expires_at = now() - interval '1 ms' WHERE project_id = $1 AND expires_at = $2";

export function serviceOf(app: TestApp, first: TestProject): Service {
  let project = first;
  const commandWith = async (input: string, ...args: string[]): Promise<Outcome & { answer: Json }> => {
    const outcome = await userdir(app.settings, [...args, '--project', project.appId, '--json'], input);
    const { code, stdout, stderr } = outcome;
    if (code === 0) return { ...OK, answer: parsed(stdout) };
    const last = parsed(stderr.trim().split('\n').at(-1) ?? '');
    const error = last?.error ?? { code: `exit code ${code}`, message: stderr };
    return { code: error.code, message: error.message, answer: parsed(stdout) };
  };
  const { bans, projects, totals, transfers } = app.context.services;
  const scope = () => projects.getScope(project.appId);
  const projectId = async () => (await scope()).projectIdFor('inspect');
  const outcomeOf = (work: () => Promise<Partial<Outcome>>): Promise<Outcome> =>
    work().then(
      (more) => ({ ...OK, ...more }),
      ({ code = 'FAILED', message }) => ({ code, message }),
    );
  /** What became of an import: with `skipInvalid`, it is done though some lines failed. */
  const reported = ({ import_id, failed, errors }: Json, { skipInvalid }: Import): Outcome =>
    failed > 0 && !skipInvalid
      ? { code: 'REFUSED LINE', message: JSON.stringify(errors) }
      : { ...OK, importId: import_id === null ? null : String(import_id) };
  const importHere = (given: Import) =>
    outcomeOf(async () => {
      const { lines, replace, skipInvalid } = given;
      const onConflict = replace && given.onConflict === 'update' ? 'replace' : given.onConflict;
      return reported(await project.importLines(lines, { onConflict, skipInvalid }), given);
    });
  const importByCommand = async (given: Import): Promise<Outcome> => {
    const { lines, onConflict, replace, skipInvalid } = given;
    const options = [
      ...['--on-conflict', onConflict],
      ...(replace && onConflict === 'update' ? ['--replace'] : []),
      ...(skipInvalid ? ['--skip-invalid'] : []),
    ];
    const text = lines.map((line) => JSON.stringify(line)).join('\n');
    const { code, message, answer } = await commandWith(text, 'user', 'import', ...options);
    return answer?.failed === undefined ? { code, message } : reported(answer, given);
  };
  const exportHere = async (): Promise<string> => {
    let text = '';
    const write = async (chunk: string | Uint8Array) => {
      text += chunk;
    };
    await transfers.exportUsers(await scope(), { write, signal: new AbortController().signal });
    return withoutIds(text).trim();
  };
  const service: Service = {
    async mutate(document, variables) {
      const { errors } = await project.graphql(document, { ...variables });
      const [error] = errors ?? [];
      return error === undefined ? OK : { code: error.extensions.code, message: error.message };
    },
    async rest(path, init) {
      const { status, headers, body } = await project.rest(path, init);
      return status === 200 ? OK : { code: headers.get('userdir-error-code') ?? String(status), message: body.error };
    },
    async command(...args) {
      const { code, message } = await commandWith('', ...args);
      return { code, message };
    },
    importLines: (given, via) => (via === 'command' ? importByCommand(given) : importHere(given)),
    undoImport: (id, via) =>
      via === 'command'
        ? service.command('user', 'import', '--undo', id, '--yes')
        : outcomeOf(async () => {
            // A part at a time.
            while (!(await transfers.undoImport(await scope(), Number(id))).isDone);
            return OK;
          }),
    async move() {
      const before = await exportHere();
      project = await app.createProject();
      const lines = before
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line));
      const imported = await importHere({ lines, onConflict: 'fail', replace: false, skipInvalid: false });
      if (imported.code !== 'OK') return imported;
      const after = await exportHere();
      if (inOrder(after) !== inOrder(before)) return { code: 'ANOTHER EXPORT', message: `${before}\nthen\n${after}` };
      return { ...imported, hasMoved: true };
    },
    async endBans(instant) {
      // Rows of `bans` that cover an identity of a banned user follow by their foreign key.
      const statements = [`UPDATE user_bans ${ENDED}`, `UPDATE bans ${ENDED} AND user_id IS NULL`];
      for (const statement of statements) await app.context.db.pool.query(statement, [await projectId(), instant]);
      return { ...OK, endedBans: 'stand' };
    },
    async sweep() {
      await deleteEndedBans(app.context.db, await projectId(), 1_000);
      return { ...OK, endedBans: 'deleted' };
    },
    wrongTotals: async () => totals.check(await scope()),
    async listBans(limit) {
      const found: Json[] = [];
      let after: string | null = null;
      do {
        const page: Json = await bans.listBans(await scope(), { after, limit, order: 'oldest first' });
        found.push(...page.bans);
        after = page.next;
      } while (after !== null);
      return found;
    },
    async query(document, variables) {
      const { data, errors } = await project.graphql(document, { ...variables });
      if (errors !== undefined) throw new Error(JSON.stringify(errors));
      return data;
    },
    async get(path, init) {
      const { status, body } = await project.rest(path, init);
      if (status !== 200) throw new Error(`${path}: ${status} ${JSON.stringify(body)}`);
      return body.result;
    },
  };
  return service;
}

/** Lines of bans of one instant come in any order. */
const inOrder = (text: string) => text.split('\n').toSorted().join('\n');

function parsed(text: string): Json {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
