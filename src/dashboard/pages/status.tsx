import { plural } from './format.js';
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
type State = keyof typeof STATES;
/** What needs an operator comes first. */
const ORDER: readonly State[] = ['FAILED', 'WARNING', 'PASSED', 'SKIPPED'];

/** How many checks say that something is wrong. */
function Verdict({ states }: { states: readonly State[] }) {
  const count = (wanted: State) => states.filter((state) => state === wanted).length;
  const [problems, warnings] = [count('FAILED'), count('WARNING')];
  const tone = problems > 0 ? '' : warnings > 0 ? 'warn' : 'good';
  return (
    <p class={`banner ${tone}`} role="status">
      {problems > 0 ? plural(problems, 'problem') : 'No problem'}
      {warnings > 0 && `, ${plural(warnings, 'warning')}`}
    </p>
  );
}

/** The checks of `doctor`. */
export function Status() {
  const query = useQuery(STATUS, may('oversee') ? {} : null);
  const status = query.data?.status;
  const checks = status?.checks.toSorted((one, other) => ORDER.indexOf(one.state) - ORDER.indexOf(other.state));
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
      {checks && <Verdict states={checks.map(({ state }) => state)} />}
      <List
        caption="Checks"
        query={query}
        found={checks}
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
