import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { wrapAnsi } from 'fast-wrap-ansi';
import { checkDataDir, checkInstallation, checkRedis, checkSettings } from '../app/machine-checks.js';
import { runThenClose } from '../closers.js';
import { VERSION } from '../config/build.js';
import type { Config, Environment } from '../config/config.js';
import { graphql } from '../dashboard/documents.js';
import { adviseConnection, explainFailure } from '../db/connection-failures.js';
import { DataDirLockedError, LOCK_WAIT_MS } from '../db/lock.js';
import { type Finding, failed, passed, skipped, warning } from '../domain/findings.js';
import { counted } from '../errors.js';
import { addCommand, option } from './arguments.js';
import { isHeldByServer, NotListeningError, reachServer } from './door.js';
import { type CommandContext, operatorOf, ReportedFailure } from './rows.js';
import { paint, terminalWidth, writeNotice } from './terminal.js';

const HELP = `
✓ passed, ! warning, ✗ failed, - not checked. Exits with 1 if a check failed.`;

export function addDoctorCommand(program: Command, { env }: CommandContext): void {
  addCommand(program, {
    name: 'doctor',
    description: 'check the settings, the database and this machine; changes nothing',
    help: HELP,
    examples: ['doctor', 'doctor --json', 'doctor --no-totals'],
    takes: [option('--no-totals', 'do not count users, which takes long in a project of millions')],
  }).action(async ({ totals, json }) => {
    // Libraries print some at their first use. What they say is no finding, or one of ours.
    process.removeAllListeners('warning');
    const findings = await diagnose(env, totals);
    const ok = findings.every(({ status }) => status !== 'failed');
    process.stdout.write(`${json ? JSON.stringify({ ok, findings }) : report(findings)}\n`);
    if (!ok) throw new ReportedFailure();
  });
}

const MARKS = {
  passed: ['green', '✓'],
  warning: ['yellow', '!'],
  failed: ['red', '✗'],
  skipped: ['dim', '-'],
} as const;

const MIN_TEXT_WIDTH = 20;
const MAX_TEXT_WIDTH = 120;

/** Findings with marks, names and texts in columns, and how many are problems. */
function report(findings: readonly Finding[]): string {
  const nameWidth = Math.max(...findings.map(({ id }) => id.length));
  const textWidth = Math.max(Math.min(terminalWidth(), MAX_TEXT_WIDTH) - nameWidth - 6, MIN_TEXT_WIDTH);
  const lines = findings.flatMap(({ id, status, found, advice }) => {
    const [style, sign] = MARKS[status];
    const start = `${paint(style, sign)}  ${paint('bold', id.padEnd(nameWidth))}  `;
    const text = wrapAnsi(advice === null ? found : `${found}\n→ ${advice}`, textWidth, { hard: true, trim: false });
    return text.split('\n').map((line, index) => `${index === 0 ? start : ' '.repeat(nameWidth + 5)}${line}`.trimEnd());
  });
  const count = (wanted: Finding['status']) => findings.filter(({ status }) => status === wanted).length;
  const [problems, warnings] = [count('failed'), count('warning')];
  const verdict = problems === 0 ? paint('green', 'No problems') : paint('red', counted(problems, 'problem'));
  return `${lines.join('\n')}\n\n${verdict}, ${counted(warnings, 'warning')}.`;
}

const UNCHECKED = skipped('not checked before the settings are correct');

/** Applies no migration and creates no database. If one check fails, the others still run. */
async function diagnose(env: Environment, totals: boolean): Promise<Finding[]> {
  const { config, findings } = checkSettings(env);
  return [
    ...findings,
    ...checkInstallation(),
    { id: 'data-directory', ...(config === null ? UNCHECKED : await checkDataDir(config)) },
    ...(config === null ? [{ id: 'database', ...UNCHECKED }] : await checkDatabase(config, totals)),
    { id: 'redis', ...(config === null ? UNCHECKED : await checkRedis(config)) },
  ];
}

async function checkDatabase(config: Config, totals: boolean): Promise<Finding[]> {
  const { db } = config;
  if (db.engine === 'embedded' && !existsSync(join(db.dataDir, 'pgdata')))
    return [{ id: 'database', ...skipped('there is none yet; the first start or command creates it') }];
  try {
    return await examine(config, totals);
  } catch (error) {
    // Another command uses the data directory, or a server is starting or closing. Neither is a problem.
    if (error instanceof DataDirLockedError || error instanceof NotListeningError)
      return [{ id: 'database', ...skipped(error.message) }];
    const advice =
      db.engine === 'embedded'
        ? 'Try again. If it fails again, restore DATA_DIR from a backup.'
        : (adviseConnection(error, 'DATABASE_URL') ?? 'Check DATABASE_URL and the log of PostgreSQL.');
    return [{ id: 'database', ...failed(explainFailure(error), advice) }];
  }
}

async function examine(config: Config, totals: boolean): Promise<Finding[]> {
  // Loaded only where a database is examined, because all commands would take longer.
  const [{ createContext }, { examineDatabase }] = await Promise.all([
    import('../context.js'),
    import('../app/examination.js'),
  ]);
  const context = createContext(config, {
    command: 'userdir doctor',
    asRequests: true,
    lockWaitMs: LOCK_WAIT_MS,
    onDoubt: writeNotice,
  });
  const work = async () => {
    try {
      // Not context.open(), which would apply migrations.
      await context.lockDataDirectory();
      await context.db.start();
      return await examineDatabase(context, { config: config.db, totals, tries: true });
    } catch (error) {
      if (!isHeldByServer(error)) throw error;
      return examineAtServer(error, config, totals);
    }
  };
  return runThenClose(work, [() => context.close()]);
}

const EXAMINE = graphql(`query Examine($totals: Boolean!) {
  status { version examination(totals: $totals) { id: name state found: message advice } }
}`);

async function examineAtServer(held: DataDirLockedError, config: Config, totals: boolean): Promise<Finding[]> {
  const { pid, since } = held.holder;
  const server = passed(`pid ${pid} holds the data directory since ${since}; the database was checked there`);
  const { ask } = await reachServer(held, operatorOf(config), new AbortController().signal);
  const { version, examination } = await ask(EXAMINE, { totals });
  const other = warning(`it runs ${version}; this command is ${VERSION}`, 'Restart the server.');
  return [
    { id: 'server', ...server },
    ...(version === VERSION ? [] : [{ id: 'server-version', ...other }]),
    ...examination.map(({ id, state, ...finding }) => ({
      id,
      status: state.toLowerCase() as Finding['status'],
      ...finding,
    })),
  ];
}
