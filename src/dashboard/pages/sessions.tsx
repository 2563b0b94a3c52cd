import { graphql, send } from './graphql.js';
import { useTitle } from './location.js';
import { announce, Badge, Header, Loading, Problem, Table, Time } from './parts.js';
import { useAction, useQuery } from './query.js';
import { may, me } from './session.js';

const SESSIONS = graphql(
  `query Sessions { sessions { id operator createdAt lastSeenAt expiresAt current userAgent } }`,
);
const REVOKE = graphql(`mutation RevokeSession($id: ID!) { revokeSession(id: $id) }`);

/** "Chrome 140, Linux" where a browser says it in the usual way; else as it says it. */
function browserName(userAgent: string): string {
  const [, name, version] = /(Firefox|Edg|OPR|HeadlessChrome|Chrome|Version)\/(\d+)/.exec(userAgent) ?? [];
  const system = /Windows|Android|iPhone|iPad|Macintosh|Linux/.exec(userAgent)?.[0];
  if (!name || !system) return userAgent.slice(0, 40);
  const shown: Record<string, string> = { Edg: 'Edge', OPR: 'Opera', HeadlessChrome: 'Chrome', Version: 'Safari' };
  return `${shown[name] ?? name} ${version}, ${system}`;
}

/** Where one is signed in; for an admin, where everyone is. */
export function Sessions() {
  const { data, failure, loading } = useQuery(SESSIONS, {});
  const revoke = useAction((id: string) => send(REVOKE, { id }));
  useTitle('Sessions');
  const end = async (id: string) => {
    if (await revoke.run(id)) announce('The session is ended.');
  };
  const note = `A session ends after ${me.value?.idleMinutes} minutes without use.`;
  return (
    <>
      <Header title="Sessions" note={may('operate') ? `The sessions of all operators. ${note}` : note} />
      <Problem failure={failure ?? revoke.failure} retry={failure !== undefined} />
      {!data && loading && <Loading lines={3} />}
      {data && (
        <Table caption="Sessions" busy={loading}>
          <thead>
            <tr>
              <th scope="col">Operator</th>
              <th scope="col">Browser</th>
              <th scope="col">Signed in</th>
              <th scope="col">Last seen</th>
              <th scope="col">Ends at the latest</th>
              <th scope="col">
                <span class="hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {data.sessions.map(({ id, operator, userAgent, createdAt, lastSeenAt, expiresAt, current }) => (
              <tr key={id}>
                <td class="main-cell">
                  <bdi>{operator}</bdi> {current && <Badge tone="good">this one</Badge>}
                </td>
                <td class="nowrap" title={userAgent}>
                  <bdi>{browserName(userAgent)}</bdi>
                </td>
                <td class="nowrap">
                  <Time at={createdAt} />
                </td>
                <td class="nowrap">
                  <Time at={lastSeenAt} />
                </td>
                <td class="nowrap">
                  <Time at={expiresAt} />
                </td>
                <td class="row-actions">
                  <button type="button" class="small" disabled={revoke.busy} onClick={() => void end(id)}>
                    {current ? 'Log out' : 'End'}
                    <span class="hidden"> the session of {operator}</span>
                  </button>
                </td>
              </tr>
            ))}
          </tbody>
        </Table>
      )}
    </>
  );
}
