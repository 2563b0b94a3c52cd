import { createReadStream } from 'node:fs';
import { access, constants, stat } from 'node:fs/promises';
import { addAbortSignal, type Readable } from 'node:stream';
import { Argument, type Command, InvalidArgumentError, Option } from 'commander';
import { METHOD_FORM } from '../domain/auth-methods.js';
import { describeJsonFault } from '../domain/json-fault.js';
import { dateBound } from '../domain/parameters.js';
import { parse, userId } from '../domain/parse.js';
import { SECRET_SCOPES, type SecretScope } from '../domain/projects.js';
import type { Stored } from '../domain/stored.js';

/** What a command says of itself and takes, options that several commands have, and parsers, which throw InvalidArgumentError. */

export interface CommandHelp {
  /** The words of the command, such as `user import`. */
  readonly name: string;
  readonly description: string;
  /** What its help says before the examples. */
  readonly help?: string;
  /** Command lines without the leading `userdir`. */
  readonly examples: readonly string[];
  /** In the order of the help, before --json, which every command has. */
  readonly takes: readonly (Argument | Option)[];
  /** Whether stdout is for data only, and the result is printed on stderr. */
  readonly tellsOnStderr?: boolean;
}

/** Adds a command to the program, or to the command that its first word names. */
export function addCommand(parent: Command, row: CommandHelp): Command {
  const { name, description, help, examples: lines, takes, tellsOnStderr = false } = row;
  const command = parent.command(name.slice(name.lastIndexOf(' ') + 1)).description(description);
  if (help !== undefined) command.addHelpText('after', help);
  command.addHelpText('after', examples(...lines));
  for (const each of takes) {
    if (each instanceof Option) command.addOption(each);
    else command.addArgument(each);
  }
  const onStderr = 'print the report on stderr as JSON; stdout is the same in any case';
  return command.option('--json', tellsOnStderr ? onStderr : 'print one JSON value on stdout');
}

type Parse = (text: string) => unknown;

export function option(flags: string, description: string, parse?: Parse): Option {
  const made = new Option(flags, description);
  return parse === undefined ? made : made.argParser(parse);
}

export const required = (...given: Parameters<typeof option>) => option(...given).makeOptionMandatory();

/** The project of a command which, where it is not said, is that of USERDIR_PROJECT. Where that is not set, it is the only one, or all. */
export class ProjectOption extends Option {
  constructor(
    description: string,
    readonly isNeeded: boolean,
  ) {
    super('--project <APP_ID>', description);
  }
}
export const projectOption = () => new ProjectOption('the App ID of the project', true);
export const projectOrAllOption = (description: string) => new ProjectOption(description, false);

/** An identity. Without --method there is none. */
export const identityOptions = () => [
  option('--method <METHOD>', `with --value: ${METHOD_FORM}`),
  option('--value <VALUE>', 'the login email, the address, or the ID at the provider or of the passkey'),
];

/** How long an old secret is good beside its successor. */
export const overlapOption = (description: string, withoutOverlap: string) =>
  option('--overlap <TIME>', description, parseDuration).default(0, withoutOverlap);
export const newestOption = () =>
  option('--limit <N>', 'at most this many of the newest entries', parseLimit).default(1_000);

/** Of commands that list all or a page. */
export const pageOptions = () => [
  option('--limit <N>', 'one page of at most this many; without it, all', parseLimit),
  option('--after <CURSOR>', 'the page after an earlier one, which told its cursor on stderr'),
];

/** Says of an App ID without an option that it is that of --project, for the command that the arguments name. */
export function nameProject(program: Command, args: readonly string[]): string[] {
  if (args.some((arg) => /^--(project(=.*)?)?$/.test(arg))) return [...args];
  let command = program;
  for (let place = 0; place < args.length; place++) {
    const arg = args[place] as string;
    const given = command.options.find(({ long, short }) => arg === long || arg === short);
    if (given?.required) place++;
    const takesProject = command.options.some(({ long }) => long === '--project');
    if (takesProject && /^app_\w+$/.test(arg)) return args.toSpliced(place, 0, '--project');
    command = command.commands.find((each) => each.name() === arg) ?? command;
  }
  return [...args];
}

/** What a command is to change, as given; it is refused as wrong usage if that is nothing. */
export function requireOneOf<Changes extends object>(command: Command, changes: Changes): Changes {
  if (Object.values(changes).every((value) => value === undefined))
    command.error('error: nothing is to be changed: give an option that says what (--help lists them)');
  return changes;
}

/** JSON as a value. An empty text stays as it is. */
export function parseJson(text: string): unknown {
  if (text === '') return text;
  const fault = describeJsonFault(text);
  if (fault !== null) throw new InvalidArgumentError(`Expected JSON: ${fault}.`);
  return JSON.parse(text);
}

/** A user ID as digits: parameters are JSON, which has no bigint. */
export const userIdArgument = (description = 'the user ID', name = '<USER_ID>') =>
  new Argument(name, description).argParser(parseUserId);
export const userIdsArgument = (description: string) =>
  new Argument('<USER_ID...>', description).argParser((text, before: readonly string[] = []) => [
    ...before,
    parseUserId(text),
  ]);
function parseUserId(text: string): string {
  const id = userIdOfText.safeParse(text);
  if (id.success) return String(id.data);
  throw new InvalidArgumentError('Expected decimal digits, 1 and up.');
}
const userIdOfText = userId('USER_ID');
export const fileArgument = () => new Argument('[FILE]', 'a file, or - for standard input').default('-');
/** An argument that is a whole number. */
export const numberArgument = (name: string, description: string) =>
  new Argument(name, description).argParser(parseWholeNumber);

/** The examples at the end of a help text. */
export function examples(...lines: readonly string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ userdir ${line}`).join('\n')}`;
}

const UNIT_MS: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
/** A longer time could lead to a year of more than four digits. */
const MAX_DURATION_MS = 36_500 * 86_400_000;

/** A duration such as `24h`, in milliseconds. */
export function parseDuration(text: string): number {
  const milliseconds = durationMs(text);
  if (milliseconds !== null) return milliseconds;
  throw new InvalidArgumentError(
    'Expected a whole number with a unit, such as 90s, 30m, 24h, 30d or 2w, and 100 years at most.',
  );
}

function durationMs(text: string): number | null {
  const [, digits = '', unit = ''] = /^(\d{1,6})([smhdw])$/.exec(text) ?? [];
  const milliseconds = Number(digits) * (UNIT_MS[unit] ?? Number.NaN);
  return digits === '' || milliseconds > MAX_DURATION_MS ? null : milliseconds;
}

const wholeNumber = (least: number) => (text: string) => {
  if (/^\d{1,9}$/.test(text) && Number(text) >= least) return Number(text);
  throw new InvalidArgumentError(`Expected a whole number from ${least} to 999999999.`);
};
export const parseWholeNumber = wholeNumber(0);
const parseLimit = wholeNumber(1);

const sinceDate = dateBound('since', 'first');

/** A duration before now, a date or a date-time, as an ISO 8601 date-time. */
export function parseSince(text: string): string {
  const agoMs = durationMs(text);
  if (agoMs !== null) return new Date(Date.now() - agoMs).toISOString();
  try {
    return parse(sinceDate, text).toISOString();
  } catch {
    throw new InvalidArgumentError(
      'Expected a time such as 24h or 30d, a date (2026-01-31) or an RFC 3339 date-time (2026-01-31T12:00:00Z).',
    );
  }
}

/** Comma-separated scopes, without duplicates. */
export function parseScopes(text: string): SecretScope[] {
  const given = text.split(',').map((name) => name.trim());
  if (given.every((name) => (SECRET_SCOPES as string[]).includes(name)))
    return SECRET_SCOPES.filter((scope) => given.includes(scope));
  throw new InvalidArgumentError(`Expected some of ${SECRET_SCOPES.join(', ')}, separated by commas.`);
}

/** Opens the FILE of a command; `what` says what a person types at a terminal. The signal ends what is no file. */
export async function openInput(file: string, what: string, signal: AbortSignal): Promise<Readable | Stored> {
  if (file === '-') {
    if (process.stdin.isTTY) process.stderr.write(`Reading ${what} from standard input. Press Ctrl+D to end it.\n`);
    return addAbortSignal(signal, process.stdin);
  }
  await access(file, constants.R_OK).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`The file ${file} ${error.code === 'ENOENT' ? 'does not exist' : 'cannot be read'}.`);
  });
  const stats = await stat(file);
  if (stats.isDirectory()) throw new Error(`${file} is a directory, not a file.`);
  // A pipe has no size, and can be read once.
  if (!stats.isFile()) return addAbortSignal(signal, createReadStream(file));
  return { bytes: stats.size, [Symbol.asyncIterator]: () => createReadStream(file)[Symbol.asyncIterator]() };
}
