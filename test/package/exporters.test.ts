import { execFile, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, inject, test } from 'vitest';
import { parse } from 'yaml';
import { ROOT } from '../support/checkout.js';
import { freePort } from '../support/cluster.js';
import { hasProgram } from '../support/programs.js';

/** The rules for machines and backups, with the exporters of Debian that they name. */

const run = promisify(execFile);
const FOLDER = join(ROOT, 'docs/deploy');
const RULES = join(FOLDER, 'alerts-machines.yaml');
const PROMTOOL = '/usr/bin/promtool';
const NODE_EXPORTER = '/usr/bin/prometheus-node-exporter';
const POSTGRES_EXPORTER = '/usr/bin/prometheus-postgres-exporter';

interface Rule {
  readonly alert: string;
  readonly expr: string;
}
const rules: readonly Rule[] = parse(await readFile(RULES, 'utf8')).groups.flatMap(
  (group: { rules: readonly Rule[] }) => group.rules,
);
const metrics = [...new Set(rules.flatMap(({ expr }) => expr.match(/\b(?:node|pg|backup)_\w+/g) ?? []))];

/** What an exporter answers, once it does. */
async function readExporter(path: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<string> {
  const port = await freePort();
  const exporter = spawn(path, [...args, `--web.listen-address=127.0.0.1:${port}`], {
    env: { ...process.env, ...env },
    stdio: 'ignore',
  });
  try {
    const read = () => fetch(`http://127.0.0.1:${port}/metrics`).then((answer) => answer.text());
    await expect.poll(() => read().catch(() => '')).toContain('# HELP');
    return await read();
  } finally {
    exporter.kill();
  }
}

const namesIn = (text: string) => new Set(text.match(/^\w+/gm));

describe.runIf(hasProgram(PROMTOOL) && inject('engine') === 'embedded')('the rules', () => {
  test('are accepted by promtool', async () => {
    expect((await run(PROMTOOL, ['check', 'rules', RULES])).stdout).toContain(`${rules.length} rules found`);
    expect(metrics).toHaveLength(6);
  });

  test('fire where something is wrong, and only there', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'userdir-rules-'));
    const disk = (name: string, value: string) => ({
      series: `node_filesystem_${name}_bytes{mountpoint="/",fstype="ext4",instance="a"}`,
      values: value,
    });
    const cases = [
      {
        series: [
          disk('avail', '50+0x200'),
          disk('size', '100+0x200'),
          { series: 'backup_completed_seconds{type="full"}', values: '0+0x200' },
          { series: 'pg_up', values: '1+0x200' },
          { series: 'pg_stat_archiver_failed_count', values: '3+0x200' },
          { series: 'pg_stat_archiver_last_archive_age', values: '30+0x200' },
        ],
        fires: [] as string[],
      },
      {
        series: [
          disk('avail', '5+0x200'),
          disk('size', '100+0x200'),
          { series: 'pg_up', values: '0+0x200' },
          { series: 'pg_stat_archiver_failed_count', values: '3+1x200' },
          { series: 'pg_stat_archiver_last_archive_age', values: '30+60x200' },
        ],
        fires: ['DiskAlmostFull', 'BackupLate', 'PostgresqlDown', 'ArchiveFails', 'ArchiveLate'],
      },
    ];
    const file = join(folder, 'test.yaml');
    const tests = cases.map(({ series, fires }) => ({
      interval: '1m',
      input_series: series,
      promql_expr_test: rules.map(({ alert }) => ({
        expr: `count(ALERTS{alertname="${alert}",alertstate="firing"}) or vector(0)`,
        eval_time: '2h',
        exp_samples: [{ labels: '{}', value: fires.includes(alert) ? 1 : 0 }],
      })),
    }));
    await writeFile(file, JSON.stringify({ rule_files: [RULES], tests }));
    try {
      expect((await run(PROMTOOL, ['test', 'rules', file])).stdout).toContain('SUCCESS');
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

describe.runIf(hasProgram(NODE_EXPORTER) && inject('engine') === 'embedded')('prometheus-node-exporter', () => {
  test('has the metrics of disks, and of a backup what its unit writes', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'userdir-textfile-'));
    const unit = await readFile(join(FOLDER, 'userdir-backup@.service'), 'utf8');
    const [, script = ''] = /^ExecStartPost=\+\/bin\/sh -c '(.*)'$/m.exec(unit) ?? [];
    // As systemd replaces its specifiers.
    const shown = script.replaceAll('%i', 'full').replaceAll('%%', '%');
    await run('/bin/sh', ['-c', shown.replace('/var/lib/prometheus/node-exporter', folder)]);
    try {
      const text = await readExporter(NODE_EXPORTER, [`--collector.textfile.directory=${folder}`]);
      const names = namesIn(text);
      expect(metrics.filter((name) => /^(node|backup)_/.test(name) && !names.has(name))).toEqual([]);
      expect(text).toMatch(/^backup_completed_seconds\{type="full"\} \d/m);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

const { TEST_DATABASE_URL } = process.env;

describe.runIf(hasProgram(POSTGRES_EXPORTER) && TEST_DATABASE_URL)('prometheus-postgres-exporter', () => {
  test('has the metrics of the server and of its archive', async () => {
    const url = new URL(TEST_DATABASE_URL as string);
    url.searchParams.set('sslmode', 'disable');
    const names = namesIn(await readExporter(POSTGRES_EXPORTER, [], { DATA_SOURCE_NAME: url.href }));
    expect(metrics.filter((name) => name.startsWith('pg_') && !names.has(name))).toEqual([]);
  });
});
