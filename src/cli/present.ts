import { userInfo } from 'node:os';
import type { Command } from 'commander';
import { type Config, ConfigError, type Environment, findMisspelt, parseConfig } from '../config/config.js';
import { type Operator, operatorName, operatorNameOf, THE_OPERATOR } from '../domain/operators.js';
import { type Progress, writeNotice } from './terminal.js';

/* What every command does around its work: it reads the settings, shows progress, ends by Ctrl+C, and prints a result. */

/** Ends the command with an exit code. The report on stdout has already told why. */
export class ReportedFailure extends Error {
  constructor(readonly exitCode = 1) {
    super();
  }
}

export type Given = Parameters<Parameters<Command['action']>[0]>;

export const jsonOf = (given: Given): boolean => given.at(-1).opts().json === true;

/** All arguments and options of a command: that of USER_ID is `userId`. */
export function valuesByName(...given: Given): Given[number] {
  const command: Command = given.at(-1);
  const { json, color, ...params } = command.opts();
  for (const [place, argument] of command.registeredArguments.entries()) {
    const name = argument
      .name()
      .toLowerCase()
      .replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
    params[name] = given[place];
  }
  return params;
}

export interface Presentation<Result> {
  readonly json?: boolean;
  /** What the progress bar counts; without it there is no bar. */
  readonly unit?: string | undefined;
  readonly interrupted?: string | undefined;
  readonly print: (result: Result) => string;
  /** Whether stdout is for output only, and the result is printed on stderr. */
  readonly tellsOnStderr?: boolean | undefined;
}

/** What the work of a command has. */
export interface Bench {
  readonly config: Config;
  readonly progress: (progress: Progress) => void;
  /** Tells a person something before the end. */
  readonly notice: (sentence: string) => void;
  readonly signal: AbortSignal;
  /** Ends the work. */
  readonly onLost: (error: Error) => void;
}

/** Does the work of a command, with a progress bar and until Ctrl+C, and prints its result. */
export async function present<Result>(
  env: Environment,
  presentation: Presentation<Result>,
  work: (bench: Bench) => Promise<Result>,
): Promise<Result> {
  const config = parseConfig(env);
  for (const sentence of findMisspelt(env)) writeNotice(sentence);
  const interruption = new AbortController();
  const { signal } = interruption;
  const interrupt = () => interruption.abort(new Error(presentation.interrupted ?? 'Interrupted.'));
  // The first Ctrl+C stops the operation cleanly, a second one ends the process.
  process.once('SIGINT', interrupt);
  const { unit } = presentation;
  // Loaded only where there is one, because it takes time.
  const bar = unit && process.stderr.isTTY ? (await import('./progress-bar.js')).progressBar(unit) : null;
  const bench: Bench = {
    config,
    progress: (progress) => bar?.update(progress),
    notice: writeNotice,
    signal,
    onLost: (error) => interruption.abort(error),
  };
  const result = await work(bench)
    .catch((error) => {
      throw signal.aborted ? signal.reason : error;
    })
    .finally(() => {
      bar?.stop();
      process.off('SIGINT', interrupt);
    });
  const text = presentation.json ? JSON.stringify(result) : presentation.print(result);
  if (text !== '') (presentation.tellsOnStderr ? process.stderr : process.stdout).write(`${text}\n`);
  return result;
}

/** The person who runs the command: their name is in the audit trail, and every right is theirs. */
export function operatorOf({ operator }: Config): Operator {
  if (operator === null) return { ...THE_OPERATOR, name: operatorNameOf(userInfo().username) };
  const { success, data, error } = OPERATOR_SETTING.safeParse(operator);
  if (!success) throw new ConfigError([String(error.issues[0]?.message)], ['OPERATOR']);
  return { ...THE_OPERATOR, name: data };
}

const OPERATOR_SETTING = operatorName('OPERATOR');

/** Where browsers reach the dashboard of a service with these settings; null if it has none. */
export function dashboardUrlOf({ dashboard, publicUrl, host, port }: Config, listensOn?: string): string | null {
  if (!dashboard) return null;
  const name = ANY_ADDRESS.includes(host) ? '127.0.0.1' : host;
  return `${publicUrl ?? listensOn ?? `http://${name.includes(':') ? `[${name}]` : name}:${port}`}/dashboard`;
}

const ANY_ADDRESS = ['0.0.0.0', '::'];
