import { SERVERS } from './processes.mjs';

/** The tables of a comparison, and which targets it has reached. */

export function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Ours ÷ theirs: the median of the rounds. */
function ratioOf(ours, theirs, figure) {
  return median(ours.rounds.map((round, index) => round[figure] / theirs.rounds[index][figure]));
}

/** A measurement with any bad answer, or with no answer, is invalid. */
export function isInvalid({ failures, responses }) {
  return failures > 0 || responses === 0;
}

export function printScenario({ name, rows, writes }, print) {
  print(`### ${name}\n`);
  const columns = [
    ...['connections', 'server', 'requests/s', 'ours ÷ peer', 'p50 ms', 'p99 ms'],
    ...['CPU µs/request: server', 'database', 'load'],
    ...(writes ? ['commits/request', 'WAL bytes/request'] : []),
    ...['scavenges', 'ms each', 'promoted by each, MiB', 'RSS MiB'],
  ];
  print(`| ${columns.join(' | ')} |`);
  print(`|---:|---|${'---:|'.repeat(columns.length - 2)}`);
  for (const row of rows) {
    const ours = rows.find(({ server, connections }) => server === 'ours' && connections === row.connections);
    const ratio = row.server === 'ours' || ours === undefined ? '' : ratioOf(ours, row, 'rps').toFixed(2);
    const fault = isInvalid(row) ? ` — **INVALID: ${row.failures} failures, ${row.responses} answers**` : '';
    const title = `${SERVERS[row.server].title}${fault}`;
    const rate = row.rps.toFixed(row.rps < 100 ? 1 : 0);
    const cpu = [row.cpuUs, row.databaseUs, row.loadUs].map((us) => us.toFixed(0));
    const times = [row.p50Ms.toFixed(2), row.p99Ms.toFixed(2), ...cpu];
    const written = writes ? [row.commits.toFixed(3), row.walBytes.toFixed(0)] : [];
    const garbage = [row.scavenges.toFixed(0), row.scavengeMs.toFixed(1), row.promotedMiB.toFixed(2)];
    print(
      `| ${[row.connections, title, rate, ratio, ...times, ...written, ...garbage, row.rssMiB.toFixed(0)].join(' | ')} |`,
    );
  }
  print();
}

/** With fewer connections the 99th percentile is that of the machine. */
const P99_CONNECTIONS = [16, 64];

/** The targets that this run has measured. */
export function verdicts(results, connectionCounts) {
  const verdict = (figure, toReach, measured, reached) => ({ figure, toReach, measured, reached });
  const compared = results.flatMap(({ name, toReach, rows }) =>
    toReach.flatMap(({ peer, requests, p99, isMost = false }) =>
      connectionCounts.flatMap((connections) => {
        const find = (server) => rows.find((row) => row.server === server && row.connections === connections);
        const [ours, theirs] = [find('ours'), find(peer)];
        if (ours === undefined || theirs === undefined) return [];
        const figure = `${name}, ${connections} connections, against ${SERVERS[peer].title}`;
        if (isInvalid(ours) || isInvalid(theirs)) return [verdict(figure, '', 'invalid', false)];
        const reached = [];
        if (requests[connections] !== undefined) {
          const ratio = ratioOf(ours, theirs, 'rps');
          const is = isMost ? ratio <= requests[connections] : ratio >= requests[connections];
          reached.push(
            verdict(figure, `requests ${isMost ? '≤' : '≥'} ${requests[connections]}`, ratio.toFixed(2), is),
          );
        }
        if (p99 !== undefined && P99_CONNECTIONS.includes(connections)) {
          const ratio = ratioOf(ours, theirs, 'p99Ms');
          reached.push(verdict(figure, `p99 ≤ ${p99}`, ratio.toFixed(2), ratio <= p99));
        }
        return reached;
      }),
    ),
  );
  const ours = results.flatMap(({ rows }) => rows.filter(({ server }) => server === 'ours'));
  if (ours.length === 0) return compared;
  const most = (figure) => Math.max(...ours.map((row) => row[figure]));
  const [memory, promoted] = [most('rssMiB'), most('promotedMiB')];
  return [
    ...compared,
    verdict('RSS of userdir under load', '≤ 220 MiB', `${memory.toFixed(0)} MiB`, memory <= 220),
    verdict('Promoted by a scavenge', '≤ 0.3 MiB', `${promoted.toFixed(2)} MiB`, promoted <= 0.3),
  ];
}
