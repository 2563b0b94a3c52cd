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

/** `{"label":"main","ended_at":null}` → "label main, ended at –". */
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
  return Object.entries(value)
    .map(([name, part]) => `${name.replaceAll('_', ' ')} ${inWords(part)}`)
    .join(', ');
}
