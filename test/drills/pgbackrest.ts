import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../support/checkout.js';
import { unprivilegedUser } from '../support/cluster.js';

/** pgBackRest with the printed files of docs/disaster, at places of a drill. */

export const PGBACKREST = '/usr/bin/pgbackrest';

/** Where the database of a drill is, and what its pgBackRest writes. */
interface Places {
  /** The file of settings that is written. */
  readonly config: string;
  /** Holds the repository. */
  readonly folder: string;
  /** For logs, locks and the spool of this database alone. */
  readonly scratch: string;
  readonly dataDir: string;
  readonly port: number | string;
  readonly sockets: string;
}

const printed = (file: string) => readFileSync(join(ROOT, 'docs/disaster', file), 'utf8');

/** Writes the printed pgbackrest.conf for a database. */
export function writeConfig({ config, folder, scratch, dataDir, port, sockets }: Places): void {
  const ofTest = printed('pgbackrest.conf')
    .replace('/var/lib/pgbackrest', join(folder, 'repository'))
    .replace('/var/spool/pgbackrest', scratch)
    .replace('CHANGE-ME', 'secret of a test')
    .replace('/var/lib/postgresql/17/main', dataDir)
    .replace('pg1-port=5432', `pg1-port=${port}\npg1-socket-path=${sockets}\npg1-user=postgres`)
    .replace('[global]', `[global]\nlog-path=${scratch}\nlock-path=${scratch}/lock`);
  writeFileSync(config, ofTest);
  chmodSync(config, 0o644);
  for (const path of [join(folder, 'repository'), scratch]) {
    mkdirSync(path, { recursive: true });
    chmodSync(path, 0o777);
  }
}

/** The printed settings of PostgreSQL, with the command for a file of settings. */
export function archiveSettings(config: string): Readonly<Record<string, string>> {
  const lines = [...printed('postgresql.conf').matchAll(/^(\w+) = '?(.*?)'?$/gm)];
  const withConfig = `${PGBACKREST} --config=${config}`;
  return Object.fromEntries(lines.map(([, name = '', value = '']) => [name, value.replace('pgbackrest', withConfig)]));
}

/** Runs it as the system user of PostgreSQL. */
export function runPgbackrest({ config, folder }: Pick<Places, 'config' | 'folder'>, args: readonly string[]): void {
  const options = [`--config=${config}`, '--stanza=userdir', '--log-level-console=warn'];
  execFileSync(PGBACKREST, [...options, ...args], {
    ...unprivilegedUser(),
    cwd: folder,
    stdio: 'pipe',
  });
}
