import { formatDateTime, formatNumber } from './format.js';
import { paths } from './location.js';
import { Table, Time } from './parts.js';

export interface Entry {
  readonly id: string;
  readonly at: string;
  readonly actor: string;
  readonly action: string;
  readonly requestId: string | null;
  readonly userId: string | null;
  /** JSON. */
  readonly details: string;
}

interface AuditTableProps {
  readonly appId: string;
  readonly entries: readonly Entry[];
  readonly caption?: string;
  readonly busy?: boolean;
  readonly withUser?: boolean;
  /** Where the entries of one actor are. */
  readonly actorHref?: (actor: string) => string;
}

/** Entries of the audit trail. */
export function AuditTable(props: AuditTableProps) {
  const { appId, entries, caption = 'Audit trail', busy = false, withUser = true, actorHref } = props;
  return (
    <Table caption={caption} busy={busy}>
      <thead>
        <tr>
          <th scope="col">When</th>
          <th scope="col">Who</th>
          <th scope="col">What</th>
          {withUser && (
            <th scope="col" class="number">
              User
            </th>
          )}
          <th scope="col">Details</th>
        </tr>
      </thead>
      <tbody>
        {entries.map(({ id, at, actor, action, requestId, userId, details }) => (
          <tr key={id}>
            <td class="nowrap">
              <Time at={at} />
            </td>
            <td class="method">
              {actorHref ? (
                <a href={actorHref(actor)} title={`Only what ${actor} did`}>
                  <bdi>{actor}</bdi>
                </a>
              ) : (
                <bdi>{actor}</bdi>
              )}
            </td>
            <td class="nowrap">{action.toLowerCase().replaceAll('_', ' ')}</td>
            {withUser && <td class="number">{userId && <a href={paths.user(appId, userId)}>{userId}</a>}</td>}
            <td class="details-cell">
              <bdi>{describe(details)}</bdi>
              {requestId && (
                <span class="second-line" title="The request, as in the log">
                  request {requestId}
                </span>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}

/** What comes first, and what is counted. Details arrive in no order that a reader would expect. */
const COUNTED = ['imported', 'created', 'updated', 'unchanged', 'skipped', 'bans', 'purged', 'users'];
const ORDER = ['label', 'secret', ...COUNTED, 'from', 'to', 'ended', 'ended_at'];
const NAMES: Record<string, string> = { ended: 'replaces', ended_at: 'which ends' };

/** `{"label":"main","ended":[3],"ended_at":null}` → "label main, replaces 3, which ends –". */
function describe(details: string): string {
  try {
    return inWords(JSON.parse(details) as unknown);
  } catch {
    return details;
  }
}

function inWords(value: unknown): string {
  if (value === null) return '–';
  if (Array.isArray(value)) return value.map(inWords).join(' and ');
  if (typeof value !== 'object') return String(value);
  const rank = (name: string) => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length);
  return Object.entries(value)
    .toSorted(([one], [other]) => rank(one) - rank(other))
    .map(([name, part]) => `${NAMES[name] ?? name.replaceAll('_', ' ')} ${inWords(readable(name, part))}`)
    .join(', ');
}

/** A time in the reader's zone, a number with its thousands apart. */
function readable(name: string, part: unknown): unknown {
  if (typeof part === 'number' && COUNTED.includes(name)) return formatNumber(part);
  return typeof part === 'string' && name.endsWith('_at') && !Number.isNaN(Date.parse(part))
    ? formatDateTime(part)
    : part;
}
