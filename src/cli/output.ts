import { SingleBar } from 'cli-progress';
import Table from 'cli-table3';
import type { Result } from './operations.js';

/** How results and progress look to a person. */

export async function writeToStdout(chunk: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    process.stdout.write(chunk, (error) => (error ? reject(error) : resolve()));
  });
}

/** A counter on stderr, on a terminal only. */
export function progressBar(unit: string | undefined): { update: (done: number) => void; stop: () => void } {
  if (unit === undefined || !process.stderr.isTTY) return { update: () => undefined, stop: () => undefined };
  const bar = new SingleBar({
    format: `{value} ${unit} in {duration_formatted}`,
    stream: process.stderr,
    clearOnComplete: true,
  });
  bar.start(0, 0);
  return { update: (done) => bar.update(done), stop: () => bar.stop() };
}

export function projectTable(projects: Result<'project list'>): string {
  if (projects.length === 0) return 'There is no project yet: userdir project create --name NAME makes one.';
  return table(
    ['ID', 'Name', 'App ID', 'Created', 'Users'],
    projects.map((each) => [each.id, each.name, each.app_id, each.created_at, each.total_user]),
  );
}

export function secretTable(secrets: Result<'project secrets'>): string {
  return table(
    ['ID', 'Label', 'Scopes', 'Created', 'Last used', 'Expires'],
    secrets.map((each) => [
      each.id,
      each.label,
      each.scopes.join(', '),
      each.created_at,
      each.last_used_at ?? 'never',
      each.live ? (each.expires_at ?? 'never') : `ended ${each.expires_at}`,
    ]),
  );
}

export function rotationReport(overlapMs: number) {
  return (rotated: Result<'project rotate'>): string => {
    const fate = overlapMs === 0 ? 'is no longer valid' : `is valid until ${rotated.previous_expires_at}`;
    const others = rotated.other_labels.map((label) => `\nStill valid: the secret labelled ${label}.`);
    return `App ID      ${rotated.app_id}\nApp Secret  ${rotated.app_secret}\n\nThe old secret ${fate}.${others.join('')}`;
  };
}

export function auditTable(entries: Result<'audit'>): string {
  if (entries.length === 0) return 'Nothing is recorded.';
  return table(
    ['At', 'Who', 'Action', 'User', 'Details', 'Request'],
    entries.map((each) => [
      each.at,
      each.actor,
      each.action,
      each.user_id ?? '',
      JSON.stringify(each.details),
      each.request_id ?? '',
    ]),
  );
}

function table(head: string[], rows: (string | number)[][]): string {
  const made = new Table({ head, style: { head: [], border: [] } });
  made.push(...rows);
  return made.toString();
}

export function totalsReport({ projects, differences, repaired }: Result<'totals check'>): string {
  const lines = differences.map(
    ({ app_id, span, starts_at, login_method, expected, actual }) =>
      `${app_id} ${span} ${starts_at} ${login_method}: ${actual} tallied, ${expected} counted`,
  );
  const verdict =
    differences.length === 0 ? 'all agree' : `${differences.length} tallies ${repaired ? 'were mended' : 'disagree'}`;
  return [...lines, `Checked ${projects} projects: ${verdict}.`].join('\n');
}

export function importReport({ imported, skipped, failed, errors }: Result<'user import'>): string {
  const faults = errors.map(({ line, error }) => `line ${line}: ${error}`);
  const more = failed > errors.length ? [`… and ${failed - errors.length} more`] : [];
  return [...faults, ...more, `Imported ${imported}, skipped ${skipped}, failed ${failed}.`].join('\n');
}
