import type { Command } from 'commander';
import { runThenClose } from '../closers.js';
import type { Environment } from '../config/config.js';
import type { OpenOptions } from '../context.js';
import { addCommand, type CommandHelp } from './arguments.js';
import { type Ask, createDoor, type Door } from './door.js';
import type { Document } from './graphql.js';
import {
  type Bench,
  dashboardUrlOf,
  type Given,
  jsonOf,
  operatorOf,
  type Presentation,
  present,
  ReportedFailure,
  valuesByName,
} from './present.js';
import { type ListForm, listPrinter } from './terminal.js';

/*
 * A command is a row: its words, how its arguments and options become the variables of a document of the operators' schema, what of the
 * answer is the result, and how that is printed for people. `--json` prints the result, so that the aliases of a document name its fields.
 */

export interface RowHelp<Variables, Result> extends CommandHelp {
  /** The variables, from what commander gives to an action. Without it they are all arguments and options, by name. */
  readonly variables?: (...given: Given) => Variables;
  /** What to do before the database is opened, such as to ask a person. */
  readonly before?: (...given: Given) => Promise<void>;
  readonly print: (result: Result, variables: Variables) => string;
  /** Whether the result, which has been printed by then, is a failure of the command. */
  readonly isFailure?: (result: Result, variables: Variables) => boolean;
}

/** A command that asks one document. */
export interface Row<Data, Variables, Result> extends RowHelp<Variables, Result> {
  readonly document: Document<Data, Variables>;
  readonly pick: (data: Data, variables: Variables) => Result;
}

/** A command that asks more than one, or for a stream. */
export interface Act<Variables, Result>
  extends RowHelp<Variables, Result>,
    Pick<Presentation<Result>, 'unit' | 'tellsOnStderr'> {
  /** How its database is opened, if that is its own matter. */
  readonly opens?: (variables: Variables) => OpenOptions;
  /** What to say when Ctrl+C ends it. */
  readonly interrupted?: string | ((variables: Variables) => string);
  readonly act: (tools: Tools, variables: Variables, ...given: Given) => Promise<Result>;
}

/** What an act has. */
export type Tools = Omit<Bench, 'onLost'> & Pick<Door, 'ask' | 'reach'>;

/** A page of a list, as the operators' schema has it. */
export interface Page<Node> {
  readonly nodes: readonly Node[];
  readonly pageInfo: { readonly endCursor: string | null; readonly hasNextPage: boolean };
}

/** The variables of a document that asks for a page. */
export interface Paging {
  readonly first: number;
  readonly after?: string | null;
}

/** A command that lists rows. Rows are printed before more are read, so that memory does not grow with the list. */
export interface List<Data, Variables extends Paging, Node, Listed> extends CommandHelp, ListForm<Listed> {
  readonly document: Document<Data, Variables>;
  readonly variables?: (...given: Given) => Omit<Variables, 'first'>;
  /** How many rows at most; without it all. */
  readonly limit?: (...given: Given) => number;
  readonly page: (data: Data, variables: Variables) => Page<Node>;
  readonly row: (node: Node) => Listed;
  /** What to say of where the list ends. */
  readonly tellEnd?: (end: Page<Node>['pageInfo']) => void;
}

/** The most rows of a page of the operators' schema. */
const MAX_PAGE = 100;
/** How many rows a list prints at a time. */
const PAGE_ROWS = 1_000;

export type CommandContext = ReturnType<typeof createCommandContext>;

/** What a command is given when it is added to the program. */
export function createCommandContext(env: Environment) {
  function act<Variables, Result>(parent: Command, row: Act<Variables, Result>): void {
    const { variables: variablesOf = valuesByName, before, opens, interrupted, print, isFailure } = row;
    addCommand(parent, row).action(async (...given: Given) => {
      const variables: Variables = variablesOf(...given);
      const presentation: Presentation<Result> = {
        json: jsonOf(given),
        unit: row.unit,
        tellsOnStderr: row.tellsOnStderr,
        interrupted: typeof interrupted === 'function' ? interrupted(variables) : interrupted,
        print: (result) => print(result, variables),
      };
      await before?.(...given);
      const result = await present(env, presentation, (bench) =>
        atDoor(row.name, bench, (tools) => row.act(tools, variables, ...given), opens?.(variables)),
      );
      if (isFailure?.(result, variables)) throw new ReportedFailure();
    });
  }

  return {
    env,
    act,

    row<Data, Variables, Result>(parent: Command, { document, pick, ...help }: Row<Data, Variables, Result>): void {
      const asked = async ({ ask }: Tools, variables: Variables) => pick(await ask(document, variables), variables);
      act(parent, { ...help, act: asked });
    },

    rows<Data, Variables extends Paging, Node, Listed>(
      parent: Command,
      list: List<Data, Variables, Node, Listed>,
    ): void {
      const { variables: variablesOf = valuesByName, limit, tellEnd } = list;
      addCommand(parent, list).action(async (...given: Given) => {
        const printer = listPrinter(list, jsonOf(given));
        const presentation: Presentation<Page<Node>['pageInfo']> = {
          // The printer knows how.
          print: printer.print,
          interrupted: 'Interrupted. The list is incomplete.',
        };
        const end = await present(env, presentation, (bench) =>
          atDoor(list.name, bench, async ({ ask, signal }) => {
            const pages = readPages(list, ask, variablesOf(...given), limit?.(...given));
            let rows: Listed[] = [];
            for (;;) {
              const { done, value } = await pages.next();
              signal.throwIfAborted();
              if (!done) rows.push(...value);
              // As many as say how wide the columns are.
              if (rows.length > 0 && (done || rows.length >= PAGE_ROWS)) {
                await printer.write(JSON.stringify(rows));
                rows = [];
              }
              if (done) return value;
            }
          }),
        );
        tellEnd?.(end);
      });
    },
  };

  /** Opens the door for some work. */
  async function atDoor<Result>(
    command: string,
    { onLost, ...bench }: Bench,
    work: (tools: Tools) => Promise<Result>,
    opens: OpenOptions = {},
  ): Promise<Result> {
    const { config, signal } = bench;
    const where = { config, operator: operatorOf(config), dashboardUrl: dashboardUrlOf(config) };
    const door = await createDoor({ ...where, command, opens, signal, onLost });
    return runThenClose(() => work({ ...bench, ask: door.ask, reach: door.reach }), [() => door.close()]);
  }
}

/** The rows of a list, page by page. Returns where the last one ends. */
export async function* readPages<Data, Variables extends Paging, Node, Listed>(
  { document, page, row }: Pick<List<Data, Variables, Node, Listed>, 'document' | 'page' | 'row'>,
  ask: Ask,
  variables: Omit<Variables, 'first'>,
  limit = Number.POSITIVE_INFINITY,
): AsyncGenerator<Listed[], Page<Node>['pageInfo']> {
  let asked = variables as Variables;
  for (let left = limit; ; ) {
    asked = { ...asked, first: Math.min(left, MAX_PAGE) };
    const { nodes, pageInfo } = page(await ask(document, asked), asked);
    yield nodes.map(row);
    left -= nodes.length;
    if (!pageInfo.hasNextPage || left <= 0) return pageInfo;
    asked = { ...asked, after: pageInfo.endCursor };
  }
}
