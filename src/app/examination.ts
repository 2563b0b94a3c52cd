import type { DatabaseConfig } from '../config/config.js';
import type { Context, Services } from '../context.js';
import { adviseConnection, explainFailure } from '../db/connection-failures.js';
import { FROZEN_LEADER_SECONDS } from '../domain/bounds.js';
import { type Finding, failed, type Outcome, passed, skipped, warning } from '../domain/findings.js';
import { COMMAND, counted } from '../errors.js';
import { asking, type Check, checksOfServer, checkVersion } from './database-checks.js';

/* What doctor and the page "Status" say of an open database: in a process of its own, or in the server that has it. */

export interface ExaminationOptions {
  readonly config: DatabaseConfig;
  /** Whether to count the users of some projects. */
  readonly totals: boolean;
  /** Whether to try a write, which is undone. A server knows the fate of its own writes. */
  readonly tries?: boolean;
}

/** Throws if the database does not answer at all. */
export async function examineDatabase(
  { db, services }: Pick<Context, 'db' | 'services'>,
  { config, totals, tries = false }: ExaminationOptions,
): Promise<Finding[]> {
  const findings: Finding[] = [{ id: 'database', ...(await checkVersion(db, config)) }];
  for (const check of checksOfServer(db, config, tries)) findings.push(await attempt(check));
  const isMigrated = ['passed', 'warning'].includes(findings.at(-1)?.status ?? '');
  const tables: readonly Check[] = [
    asking(db, 'rights'),
    ['restores', () => checkRestores(services)],
    ['changes', () => checkChanges(services)],
    ['webhooks', () => checkWebhooks(services)],
    ['totals', () => checkTotals(services)],
  ];
  for (const check of tables) {
    const [id] = check;
    if (id === 'totals' && !totals) findings.push({ id, ...skipped('not checked because of --no-totals') });
    else if (isMigrated) findings.push(await attempt(check));
    else findings.push({ id, ...skipped('not checked before the migrations are applied') });
  }
  return findings;
}

/** A check that throws is a failed finding; the other checks still run. */
async function attempt([id, check, setting = 'DATABASE_URL']: Check): Promise<Finding> {
  const outcome = await check().catch((error) =>
    failed(explainFailure(error), adviseConnection(error, setting) ?? 'See the log of the database.'),
  );
  return { id, ...outcome };
}

/** For so long after a restore it is told of. */
const RESTORE_SECONDS = 7 * 86_400;

/** Names a restore: one that the next start will notice, and one of the last days. */
async function checkRestores({ changes }: Services): Promise<Outcome> {
  const advice = 'docs/disaster.md, "After a restore", says what to do.';
  if ((await changes.recognise('look')) === 'restored')
    return warning(
      'the database was restored or copied; the next start pauses the webhooks, and begins new IDs',
      advice,
    );
  const at = await changes.findRestore();
  if (at === null) return passed('it was never restored');
  const found = `it was restored, which was noticed at ${at}`;
  if (Date.now() - Date.parse(at) > RESTORE_SECONDS * 1_000) return passed(found);
  return warning(`${found}; ${describeRevived(await changes.findRevived())}`, advice);
}

/** What an operator has to look through: nothing tells what was done in the time that is lost. */
function describeRevived(revived: Awaited<ReturnType<Services['changes']['findRevived']>>): string {
  const { lastAct, secrets, secretNames, operators, operatorNames, bans } = revived;
  const named = (count: number, noun: string, names: readonly string[]) => {
    const shown = [...names, ...(count > names.length ? ['…'] : [])].join(', ');
    return `${counted(count, noun)}${shown && `: ${shown}`}`;
  };
  const last = lastAct === null ? 'it knows no act from before' : `the last act that it knows is ${lastAct}`;
  return `${last}. What was ended later is valid again, what was added later is gone: look through ${named(secrets, 'secret', secretNames)}; ${named(operators, 'operator', operatorNames)}; and ${counted(bans, 'ban')}`;
}

/** A younger transaction is nothing unusual. */
const MAX_TRANSACTION_SECONDS = 60;
/** A leader that works is never silent for so long. */
const MAX_SILENT_SECONDS = 5;

/** Names the process that publishes changes, and what holds up the feed. */
async function checkChanges({ changes }: Services): Promise<Outcome> {
  const [oldest, leader] = [await changes.findOldestWriter(), await changes.findLeader()];
  if (leader !== null && (leader.silentSeconds ?? 0) > MAX_SILENT_SECONDS)
    return warning(
      `${describeLeader(leader)}: its process is frozen, and the feed of changes with it`,
      `Another server ends its session after ${FROZEN_LEADER_SECONDS} s. Without one: SELECT pg_terminate_backend(${leader.pid}).`,
    );
  if (oldest === null || oldest.seconds < MAX_TRANSACTION_SECONDS)
    return passed(`no old transaction holds up the feed${leader === null ? '' : `; ${describeLeader(leader)}`}`);
  const { pid, name, role, state, seconds } = oldest;
  const where = `of role ${role}, open for ${Math.floor(seconds / 60)} min`;
  if (pid === null) {
    const gid = `'${name.replaceAll("'", "''")}'`;
    return warning(
      `the prepared transaction ${gid} ${where}, holds up the feed of changes`,
      `It has no process. Run in this database: ROLLBACK PREPARED ${gid}; or COMMIT PREPARED ${gid};`,
    );
  }
  return warning(
    `process ${pid} (${name || 'without a name'}) ${where} (${state}), holds up the feed of changes`,
    `End its transaction; if it is stuck: SELECT pg_terminate_backend(${pid}).`,
  );
}

type Leader = NonNullable<Awaited<ReturnType<Services['changes']['findLeader']>>>;

function describeLeader({ pid, role, address, seconds, silentSeconds }: Leader): string {
  const age = seconds === null ? '' : ` for ${Math.round(seconds)} s`;
  const silence = silentSeconds === null ? '' : `, silent for ${silentSeconds.toFixed(1)} s`;
  return `process ${pid} of role ${role}${address === null ? '' : ` at ${address}`} leads it${age}${silence}`;
}

/** Names webhooks that nothing is sent to, and those whose deliveries fail. */
async function checkWebhooks({ webhooks }: Services): Promise<Outcome> {
  const { enabled, failing, paused, disabled } = await webhooks.findFigures();
  if (failing + paused + disabled === 0) return passed(enabled === 0 ? 'there is none' : `${enabled} enabled`);
  const named = (await webhooks.findTroubled()).map(({ appId, id, status, failingSince }) => {
    const isFailing = status === 'enabled';
    return `${id} of ${appId} ${isFailing ? `has failed since ${failingSince?.toISOString()}` : `is ${status}`}`;
  });
  const more = failing + paused + disabled - named.length;
  return warning(
    `${named.join(', ')}${more > 0 ? `, and ${more} more` : ''}${failing > 0 ? `; ${failing} of ${enabled} enabled waiting for a retry` : ''}`,
    `${COMMAND} webhook list says why. Resume it, or remove it.`,
  );
}

/** What is checked of many projects: a sample, drawn anew each time, that takes seconds. */
const SAMPLED_PROJECTS = 100;
const SAMPLED_USERS = 300_000;

async function checkTotals({ projects, totals }: Services): Promise<Outcome> {
  const all = await projects.countProjects();
  const wrongAppIds = [];
  let [checked, users] = [0, 0];
  for (const { appId, totalUser } of await projects.sampleProjects(SAMPLED_PROJECTS)) {
    if (users >= SAMPLED_USERS) break;
    const differences = await totals.check(await projects.getScope(appId));
    if (differences.length > 0) wrongAppIds.push(appId);
    checked += 1;
    users += totalUser;
  }
  const more = checked < all ? `; ${all - checked} others were not checked: ${COMMAND} totals check counts all` : '';
  if (wrongAppIds.length === 0)
    return passed(`exact for ${counted(users, 'user')} of ${counted(checked, 'project')}${more}`);
  return failed(`wrong in ${wrongAppIds.join(', ')}${more}`, `Run ${COMMAND} totals check --repair.`);
}
