import { formatNumber, formatRemaining } from './format.js';
import { graphql, may, refresh, useQuery } from './graphql.js';
import { Badge, Button, Time } from './parts.js';
import { Header, NotAllowed, useTitle } from './screen.js';
import { Answer, Table } from './table.js';

const STATUS = graphql(`
  query Status {
    status {
      version database startedAt
      checks { name state message advice }
      figures { name description value unit }
    }
  }
`);

const STATES = {
  PASSED: ['good', 'passes'],
  WARNING: ['warn', 'warning'],
  FAILED: ['bad', 'problem'],
  SKIPPED: ['plain', 'not checked'],
} as const;

function formatFigure(value: number, unit: string): string {
  if (unit === 'bytes') return `${formatNumber(Math.round(value / 1e6))} MB`;
  return unit === 'seconds' ? formatRemaining(value * 1000) : `${formatNumber(value)} ${unit}`;
}

/** The checks of `doctor`, and the service's counts. */
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
        recipe={{ userdir: ['doctor'] }}
      >
        <Button label="Check again" onClick={refresh} disabled={query.loading} />
      </Header>
      <Answer query={query} data={status}>
        {(current) => (
          <>
            <section>
              <h2>Checks</h2>
              <Table
                caption="Checks"
                busy={query.loading}
                rows={current.checks}
                rowKey={({ name }) => name}
                columns={[
                  { title: 'Check', namesRow: true, cell: ({ name }) => name },
                  {
                    title: 'Result',
                    cell: ({ state }) => <Badge tone={STATES[state][0]}>{STATES[state][1]}</Badge>,
                  },
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
            </section>
            <section>
              <h2>Figures</h2>
              <Table
                caption="Figures"
                rows={current.figures}
                rowKey={({ name }) => name}
                columns={[
                  {
                    title: 'Figure',
                    namesRow: true,
                    cell: ({ description, name }) => (
                      <>
                        {description} <code class="quiet">{name}</code>
                      </>
                    ),
                  },
                  { title: 'Value', class: 'number', cell: ({ value, unit }) => formatFigure(value, unit) },
                ]}
              />
            </section>
          </>
        )}
      </Answer>
    </>
  );
}
