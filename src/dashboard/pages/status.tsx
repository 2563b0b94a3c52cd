import { formatNumber, formatRemaining } from './format.js';
import { graphql } from './graphql.js';
import { useTitle } from './location.js';
import { Badge, Header, Loading, Problem, Table, Time } from './parts.js';
import { refresh, useQuery } from './query.js';
import { SameByApi } from './recipes.js';

const STATUS = graphql(`
  query Status {
    status {
      version database startedAt
      checks { name state message advice }
      figures { name description value unit }
    }
  }
`);

const STATES = { OK: ['good', 'passes'], WARNING: ['warn', 'warning'], PROBLEM: ['bad', 'problem'] } as const;

function formatFigure(value: number, unit: string): string {
  if (unit === 'bytes') return `${formatNumber(Math.round(value / 1e6))} MB`;
  return unit === 'seconds' ? formatRemaining(value * 1000) : `${formatNumber(value)} ${unit}`;
}

/** What `doctor` says, and what the service counts. */
export function Status() {
  const { data, failure, loading } = useQuery(STATUS, {});
  const status = data?.status;
  useTitle('Status');
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
      >
        <SameByApi recipe={{ userdir: ['doctor'] }} />
        <button type="button" onClick={refresh} disabled={loading}>
          Check again
        </button>
      </Header>
      <Problem failure={failure} retry />
      {!status && loading && <Loading />}
      {status && (
        <>
          <section>
            <h2>Checks</h2>
            <Table caption="Checks" busy={loading}>
              <thead>
                <tr>
                  <th scope="col">Check</th>
                  <th scope="col">Result</th>
                  <th scope="col">What was found</th>
                </tr>
              </thead>
              <tbody>
                {status.checks.map(({ name, state, message, advice }) => (
                  <tr key={name}>
                    <th scope="row">{name}</th>
                    <td>
                      <Badge tone={STATES[state][0]}>{STATES[state][1]}</Badge>
                    </td>
                    <td class="details-cell">
                      {message}
                      {advice && <span class="second-line">{advice}</span>}
                    </td>
                  </tr>
                ))}
              </tbody>
            </Table>
          </section>
          <section>
            <h2>Figures</h2>
            <Table caption="Figures">
              <thead>
                <tr>
                  <th scope="col">Figure</th>
                  <th scope="col" class="number">
                    Value
                  </th>
                </tr>
              </thead>
              <tbody>
                {status.figures.map(({ name, description, value, unit }) => (
                  <tr key={name}>
                    <th scope="row">
                      {description} <code class="quiet">{name}</code>
                    </th>
                    <td class="number">{formatFigure(value, unit)}</td>
                  </tr>
                ))}
              </tbody>
            </Table>
          </section>
        </>
      )}
    </>
  );
}
