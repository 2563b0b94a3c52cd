import { userInfo } from 'node:os';
import type { Command } from 'commander';
import type { ArgumentNode, ObjectFieldNode } from 'graphql';
import { runThenClose } from '../closers.js';
import { type Config, ConfigError, type Environment, findMisspelt, parseConfig } from '../config/config.js';
import type { OpenOptions } from '../context.js';
import { type Document, graphql } from '../dashboard/documents.js';
import { MAX_ROWS } from '../domain/bounds.js';
import { type Operator, operatorName, operatorNameOf, THE_OPERATOR } from '../domain/operators.js';
import { camelCase } from '../domain/spelling.js';
import { AppError, COMMAND } from '../errors.js';
import { addCommand, type CommandHelp, ProjectOption } from './arguments.js';
import { type Ask, createDoor, type Door, type Result as ResultOf } from './door.js';
import { type ListForm, type ShowProgress, startTable, toJson, writeNotice, writeToStdout } from './terminal.js';

/*
 * A command is a row: its words, how its arguments and options become the variables of a document of the operators' schema, and how the result
 * is printed for people. `--json` prints the result, so that the aliases of a document name its fields.
 */

/** What commander gives to an action: the arguments, the options and the command. */
export type Given = Parameters<Parameters<Command['action']>[0]>;

interface RowHelp<Variables, Result> extends CommandHelp {
  /** The variables, from what commander gives to an action. Without it they are all arguments and options, by name. */
  readonly variables?: (...given: Given) => Variables;
  /** What to do first, such as to ask a person. */
  readonly before?: (variables: Variables, command: Command) => Promise<void>;
  readonly print: (result: Result, variables: Variables) => string;
  /** Whether the result, which has been printed by then, is a failure of the command. */
  readonly isFailure?: (result: Result, variables: Variables) => boolean;
}

/** A command that asks one document. `pick` makes the result of what that gives, where that is not the result. */
interface Row<Data, Variables, Result> extends RowHelp<Variables, Result> {
  readonly document: Document<Data, Variables>;
  readonly pick?: (answer: ResultOf<Data>, variables: Variables) => Result;
}

/** A command that asks more than one, or for a stream. */
interface Act<Variables, Result> extends RowHelp<Variables, Result> {
  /** What the progress bar counts; without it there is no bar. */
  readonly unit?: string;
  /** How its database is opened, if that is its own matter. */
  readonly opens?: (variables: Variables) => OpenOptions;
  /** What to say when Ctrl+C ends it. */
  readonly interrupted?: string | ((variables: Variables) => string);
  readonly act: (tools: Tools, variables: Variables, command: Command) => Promise<Result>;
}

/** What an act has. */
export interface Tools extends Pick<Door, 'ask' | 'reach'> {
  readonly operator: Operator;
  readonly progress: ShowProgress;
  /** Tells a person something before the end. */
  readonly notice: (sentence: string) => void;
  readonly signal: AbortSignal;
}

/** A list, as the schemas have it: whole, or a page. */
type Page<Node> =
  | readonly Node[]
  | { readonly nodes: readonly Node[]; readonly pageInfo: { endCursor: string | null; hasNextPage: boolean } };

type NodeOf<Data> = ResultOf<Data> extends Page<infer Node> ? Node : never;

/** A command that lists rows. Rows are printed before more are read, so that memory does not grow with the list. */
interface List<Data, Variables, Listed> extends CommandHelp, ListForm<NoInfer<Listed>> {
  readonly document: Document<Data, Variables>;
  readonly variables?: (...given: Given) => Omit<Variables, 'first'>;
  readonly row?: (node: NodeOf<Data>) => Listed;
  /** What to call the rows in the sentence that says where the next page begins. */
  readonly things?: string;
}

/** How many rows a list prints at a time. */
const PAGE_ROWS = 1_000;

/** Ends the command with an exit code. The report on stdout has already told why. */
export class ReportedFailure extends Error {
  readonly exitCode = 1;
}

/** What a command is given when it is added to the program. */
export interface CommandContext {
  readonly env: Environment;
  /** Adds a command that asks more than one document, or for a stream. */
  act<Variables, Result>(parent: Command, row: Act<Variables, Result>): void;
  /** Adds a command that asks one document. */
  row<Data, Variables, Result = ResultOf<Data>>(parent: Command, row: Row<Data, Variables, Result>): void;
  /** Adds a command that lists rows. */
  rows<Data, Variables, Listed = NodeOf<Data>>(parent: Command, list: List<Data, Variables, Listed>): void;
}

export function createCommandContext(env: Environment): CommandContext {
  function act<Variables, Result>(parent: Command, row: Act<Variables, Result>): void {
    addCommand(parent, row).action(async (...given: Given) => {
      const command: Command = given.at(-1);
      const config = parseConfig(env);
      for (const sentence of findMisspelt(env)) writeNotice(sentence);
      const option = row.takes.find((each) => each instanceof ProjectOption);
      const isSilent = () => option !== undefined && command.opts()['project'] === undefined;
      if (isSilent() && config.project !== null) command.setOptionValue('project', config.project);
      const variablesNow = (): Variables => (row.variables ?? valuesByName)(...given);
      let variables = variablesNow();
      const result = await perform(command, config, row, variables, async (tools) => {
        if (isSilent() && option?.isNeeded) {
          command.setOptionValue('project', await findOnlyProject(tools.ask));
          variables = variablesNow();
        }
        await row.before?.(variables, command);
        return row.act(tools, variables, command);
      });
      // A list has printed its rows.
      const text = result === undefined ? '' : isJson(command) ? toJson(result) : row.print(result, variables);
      if (text !== '') (row.tellsOnStderr ? process.stderr : process.stdout).write(`${text}\n`);
      if (row.isFailure?.(result, variables)) throw new ReportedFailure();
    });
  }

  return {
    env,
    act,

    row<Data, Variables, Result = ResultOf<Data>>(
      parent: Command,
      { document, pick = (answer) => answer as Result, ...help }: Row<Data, Variables, Result>,
    ): void {
      act(parent, {
        ...help,
        act: async ({ ask }, variables: Variables) => pick(await ask(document, variables), variables),
      });
    },

    rows<Data, Variables, Listed = NodeOf<Data>>(parent: Command, list: List<Data, Variables, Listed>): void {
      act<Omit<Variables, 'first'>, undefined>(parent, {
        ...list,
        interrupted: 'Interrupted. The list is incomplete.',
        act: (tools, variables, command) => printList(tools, list, variables, command),
        print: () => '',
      });
    },
  };
}

const isJson = (command: Command): boolean => command.opts()['json'] === true;

/** All arguments and options of a command: that of USER_ID is `userId`. */
function valuesByName(...given: Given): Given[number] {
  const command: Command = given.at(-1);
  const { json, color, ...values } = command.opts();
  for (const [place, argument] of command.registeredArguments.entries())
    values[camelCase(argument.name().toLowerCase())] = given[place];
  return values;
}

/** Does the work of a command at the door, with a progress bar and until Ctrl+C. */
async function perform<Variables, Result>(
  command: Command,
  config: Config,
  { name, unit, opens, interrupted = 'Interrupted.' }: Act<Variables, Result>,
  variables: Variables,
  work: (tools: Tools) => Promise<Result>,
): Promise<Result> {
  const interruption = new AbortController();
  const { signal } = interruption;
  const interrupt = () =>
    interruption.abort(new Error(typeof interrupted === 'function' ? interrupted(variables) : interrupted));
  // The first Ctrl+C stops the operation cleanly, a second one ends the process.
  process.once('SIGINT', interrupt);
  // Loaded only where there is one, because it takes time.
  const bar = unit && process.stderr.isTTY ? (await import('./progress-bar.js')).progressBar(unit) : null;
  try {
    const operator = operatorOf(config);
    const door = await createDoor({
      config,
      operator,
      command: name,
      signal,
      opens: opens?.(variables) ?? {},
      onLost: (error) => interruption.abort(error),
    });
    const ask: Ask = (document, values) =>
      door.ask(document, values).catch(async (error) => {
        throw await naming(error, command, String(document));
      });
    const tools: Tools = {
      ask,
      reach: door.reach,
      operator,
      signal,
      notice: writeNotice,
      progress: (...progress) => bar?.update(...progress),
    };
    return await runThenClose(() => work(tools), [() => door.close()]);
  } catch (error) {
    throw signal.aborted ? signal.reason : await naming(error, command, '');
  } finally {
    bar?.stop();
    process.off('SIGINT', interrupt);
  }
}

/** An error of arguments of a document, as one of the options or the arguments of the command from which their values come. */
async function naming(error: unknown, { options, registeredArguments }: Command, document: string): Promise<unknown> {
  if (!(error instanceof AppError && error.code === 'BAD_USER_INPUT')) return error;
  const variables = await variablesOf(document);
  const message = error.message.replace(/(?<=^|\. )\w+(?=(\[\d+\])?: )/g, (name) => {
    const argument = camelCase(name);
    const variable = variables.get(argument) ?? argument;
    const named =
      options.find((option) => option.attributeName() === variable)?.long ??
      registeredArguments.find((each) => camelCase(each.name().toLowerCase()) === variable)?.name();
    return named || name;
  });
  return message === error.message ? error : new AppError('BAD_USER_INPUT', message, { cause: error });
}

/** The variable of each argument, and of each field of an input object, in a document; none for an empty one. */
async function variablesOf(document: string): Promise<ReadonlyMap<string, string>> {
  const variables = new Map<string, string>();
  if (document === '') return variables;
  // Loaded here, because only errors need it.
  const { parse, visit } = await import('graphql');
  const remember = ({ name, value }: ArgumentNode | ObjectFieldNode) => {
    if (value.kind === 'Variable') variables.set(name.value, value.name.value);
  };
  visit(parse(document), { Argument: remember, ObjectField: remember });
  return variables;
}

/** The name of the system user. One without an entry among the users of the system, as in a container, is told by number. */
function systemUser(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid-${process.getuid?.() ?? 'unknown'}`;
  }
}

/** The person who runs the command: their name is in the audit trail, and every right is theirs. */
export function operatorOf({ operator }: Config): Operator {
  if (operator === null) return { ...THE_OPERATOR, name: operatorNameOf(systemUser()) };
  const { success, data, error } = OPERATOR_SETTING.safeParse(operator);
  if (!success) throw new ConfigError([String(error.issues[0]?.message)], ['OPERATOR']);
  return { ...THE_OPERATOR, name: data };
}

const OPERATOR_SETTING = operatorName('OPERATOR');

/** The rows of a list, page by page. Returns where the next page begins, if there are more. */
async function* readPages<Data, Variables>(
  document: Document<Data, Variables>,
  ask: Ask,
  variables: Omit<Variables, 'first'>,
  limit = Number.POSITIVE_INFINITY,
): AsyncGenerator<readonly NodeOf<Data>[], string | null> {
  let paging: object = {};
  for (let left = limit; ; ) {
    const asked = { ...variables, ...paging, first: Math.min(left, MAX_ROWS) } as Variables;
    const page = (await ask(document, asked)) as Page<NodeOf<Data>>;
    const { nodes, pageInfo } = 'nodes' in page ? page : { nodes: page, pageInfo: null };
    const after = pageInfo?.hasNextPage ? pageInfo.endCursor : null;
    yield nodes;
    left -= nodes.length;
    if (after === null || left <= 0) return after;
    paging = { after };
  }
}

async function printList<Data, Variables, Listed>(
  { ask, notice, signal }: Tools,
  list: List<Data, Variables, Listed>,
  variables: Omit<Variables, 'first'>,
  command: Command,
): Promise<undefined> {
  const tableOf = startTable(list);
  const pages = readPages(list.document, ask, variables, command.opts()['limit']);
  let rows: Listed[] = [];
  let written = 0;
  for (;;) {
    const { done, value } = await pages.next();
    signal.throwIfAborted();
    if (!done) rows.push(...value.map(list.row ?? ((node) => node as Listed)));
    // As many as say how wide the columns are.
    if (rows.length > 0 && (done || rows.length >= PAGE_ROWS)) {
      const start = written === 0 ? '[' : ',';
      await writeToStdout(isJson(command) ? start + toJson(rows).slice(1, -1) : `${tableOf(rows)}\n`);
      written += rows.length;
      rows = [];
    }
    if (!done) continue;
    if (isJson(command)) await writeToStdout(written === 0 ? '[]\n' : ']\n');
    else if (written === 0 && list.none) await writeToStdout(`${list.none}\n`);
    if (list.things && value !== null) notice(`There are more ${list.things}. The next page: --after ${value}`);
    if (command.getOptionValueSource('limit') === 'default' && written === command.opts()['limit'])
      notice(`These are the newest ${written} entries. For older ones, give a higher --limit.`);
    return undefined;
  }
}

const APP_IDS = graphql(`query AppIds($first: Int!, $after: String) {
  projects(oldestFirst: true, first: $first, after: $after) { nodes { appId } pageInfo { endCursor hasNextPage } }
}`);

/** The App ID of the project, or those of all, oldest first. */
export async function appIdsOf({ ask }: Pick<Tools, 'ask'>, project: string | undefined): Promise<string[]> {
  if (project !== undefined) return [project];
  const appIds: string[] = [];
  for await (const page of readPages(APP_IDS, ask, {})) appIds.push(...page.map(({ appId }) => appId));
  return appIds;
}

/** The App ID of the project of a command that does not say it. */
async function findOnlyProject(ask: Ask): Promise<string> {
  const [only, another] = (await ask(APP_IDS, { first: 2 })).nodes;
  if (only === undefined)
    throw new AppError('BAD_USER_INPUT', `There is no project yet. Create one: ${COMMAND} project create --name NAME`);
  if (another === undefined) return only.appId;
  const ways = 'give --project APP_ID, or set USERDIR_PROJECT';
  throw new AppError('BAD_USER_INPUT', `There are several projects: ${ways}. To list them: ${COMMAND} project list`);
}
