import { DETAILS } from './audit.js';
import { plural } from './format.js';
import { graphql, type ResultOf } from './graphql.js';
import { paths } from './location.js';
import { Time } from './parts.js';

export const TIMELINE = graphql(`
  fragment Timeline on Project {
    audit(userId: $id, first: 50) {
      nodes { id at actor words requestId details }
      pageInfo { hasNextPage }
    }
    user(id: $id) {
      createdAt lastLogin loginCount removedAt mergedInto
      ban { createdAt }
      identities { authMethod authValue createdAt lastLogin }
    }
  }
`);

type Known = ResultOf<typeof TIMELINE>;
type Entry = Known['audit']['nodes'][number];

type Mark = readonly [at: string | null | undefined, words: string];

/** What is kept with a user tells of times, too: since when each identity is theirs, and of the last login by it. There is no other record of logins. */
const marksOf = ({ identities, ...user }: NonNullable<Known['user']>): Mark[] => [
  [user.createdAt, 'registered'],
  [user.lastLogin, `logged in: the last of ${plural(user.loginCount, 'login')}`],
  ...identities.flatMap(({ authMethod, authValue, createdAt, lastLogin }): Mark[] => [
    [createdAt, `got the identity ${authMethod} ${authValue}`],
    [lastLogin, `logged in last by ${authMethod} ${authValue}`],
  ]),
  [user.ban?.createdAt, 'was banned'],
  [user.removedAt, user.mergedInto ? `was merged into user ${user.mergedInto}` : 'was removed'],
];

/** What has happened to a user, newest first, by the newest entries of the audit trail and what is kept with the user. */
export function Timeline({ appId, id, known }: { appId: string; id: string; known: Known }) {
  const { user, audit } = known;
  const end = audit.pageInfo.hasNextPage && audit.nodes.at(-1)?.id;
  const events = new Map<string, { at: string; words: string; entry?: Entry }[]>();
  for (const entry of audit.nodes) events.set(entry.at, [...(events.get(entry.at) ?? []), { ...entry, entry }]);
  // An entry says more than a mark of the same instant.
  for (const [at, words] of user ? marksOf(user) : []) if (at && !events.has(at)) events.set(at, [{ at, words }]);
  const shown = [...events.values()].flat().toSorted((one, other) => Date.parse(other.at) - Date.parse(one.at));
  return (
    <section>
      <h2>Timeline</h2>
      <ol class="timeline">
        {shown.map(({ at, words, entry }) => (
          <li key={entry?.id ?? words}>
            <Time at={at} isExact />
            <div class="long">
              {entry && <bdi class="quiet">{entry.actor} </bdi>}
              <bdi>{words}</bdi>
              {entry && <div class="quiet">{DETAILS.cell(entry)}</div>}
              {end === entry?.id && (
                <a href={`${paths.project(appId, 'audit')}?userId=${id}`}>Older entries of the audit trail</a>
              )}
            </div>
          </li>
        ))}
      </ol>
      {shown.length === 0 && <p class="quiet">Nothing has been recorded.</p>}
    </section>
  );
}
