import { graphql, may, refresh, useQuery } from './graphql.js';
import { Badge, Button, Time } from './parts.js';
import { command } from './recipes.js';
import { Header, NotAllowed, useTitle } from './screen.js';
import { List } from './table.js';

const STATUS = graphql(`
  query Status {
    status {
      version database startedAt
      checks { name state message advice }
    }
  }
`);

const STATES = {
  PASSED: ['good', 'passes'],
  WARNING: ['warn', 'warning'],
  FAILED: ['bad', 'problem'],
  SKIPPED: ['plain', 'not checked'],
} as const;

/** The checks of `doctor`. */
export function Status() {
  const query = useQuery(STATUS, may('oversee') ? {} : null);
  const status = query.data?.status;
  useTitle('Status');
  if (!may('oversee')) return <NotAllowed title="Status" to="operator" />;
  return (
    <>
      <Header
        title="Status"
        note={
          status && (
            <>
              userdir {status.version} on {status.database}, since <Time at={status.startedAt} />
            </>
          )
        }
        recipe={{ userdir: command('doctor', {}) }}
      >
        <Button label="Check again" onClick={refresh} disabled={query.loading} />
      </Header>
      <List
        caption="Checks"
        query={query}
        found={status?.checks}
        rowKey={({ name }) => name}
        columns={[
          { title: 'Check', namesRow: true, cell: ({ name }) => name },
          { title: 'Result', cell: ({ state }) => <Badge tone={STATES[state][0]}>{STATES[state][1]}</Badge> },
          {
            title: 'What was found',
            class: 'details-cell',
            cell: ({ message, advice }) => (
              <>
                {message}
                {advice && <span class="second-line">{advice}</span>}
              </>
            ),
          },
        ]}
      />
    </>
  );
}
