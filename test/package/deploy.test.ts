import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { access, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { DCLinter } from 'dclint';
import { Deployment } from 'kubernetes-models/apps/v1';
import { Job } from 'kubernetes-models/batch/v1';
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1';
import { Service } from 'kubernetes-models/v1';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { parseConfig } from '#dist/config/config.js';
import { type Json, useTestApp } from '../support/app.js';
import { ROOT } from '../support/checkout.js';

/** The files of docs/deploy: by their schemas, and beside what the service does. test/package/alerts.test.ts runs the alerts, test/package/proxies.test.ts HAProxy. */

const run = promisify(execFile);
const FOLDER = join(ROOT, 'docs/deploy');
const read = (name: string) => readFile(join(FOLDER, name), 'utf8');
const version: string = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')).version;

/** A stop takes the delay, what a request may take and five seconds (docs/operating.md). Throws if a setting is refused. */
function longestStop(environment: Record<string, string>): number {
  const { DATABASE_URL_FILE, ...others } = environment;
  expect(DATABASE_URL_FILE).toMatch(/^\//);
  const url = 'postgres://userdir@db.example.com/userdir';
  const config = parseConfig({ ...others, DATABASE_URL: url, NODE_ENV: 'production', HOST: '0.0.0.0' });
  return (config.shutdownDelayMs + config.requestTimeoutMs) / 1_000 + 5;
}

describe.runIf(inject('engine') === 'embedded')('docs/deploy', () => {
  const app = useTestApp();
  const statusOf = async (path: string) => (await fetch(app.url + path)).status;

  describe('compose.yaml', () => {
    let compose: Json;
    beforeAll(async () => {
      compose = parse(await read('compose.yaml'), { merge: true });
    });

    const inImage = ['userdir-a', 'userdir-b', 'migrate'];

    test('has no fault by the schema of Compose and the rules of dclint, which find one', async () => {
      // Of these two, one sorts against the other files of this project.
      const rules = { 'service-keys-order': 0, 'top-level-properties-order': 0 } as const;
      const linter = new DCLinter({ rules, quiet: false, debug: false, exclude: [] });
      const lint = (path: string) => linter.lintFiles([path], false).flatMap(({ messages }: Json) => messages);
      const folder = await mkdtemp(join(tmpdir(), 'userdir-compose-'));
      const spoiled = join(folder, 'compose.yaml');
      await writeFile(spoiled, (await read('compose.yaml')).replace('restart: unless-stopped', 'restrat: always'));
      expect(JSON.stringify(lint(spoiled))).toContain('invalid-schema');
      await rm(folder, { recursive: true });
      expect(lint(join(FOLDER, 'compose.yaml'))).toEqual([]);
    });

    test('gives each process its settings and its secret, and more time than a stop takes', () => {
      for (const name of inImage) {
        const service = compose.services[name];
        expect(service.image).toBe(`userdir:${version}`);
        expect(Number.parseInt(service.stop_grace_period, 10)).toBeGreaterThan(longestStop(service.environment));
        const secret = service.environment.DATABASE_URL_FILE.replace('/run/secrets/', '');
        expect(service.secrets).toContain(secret);
        expect(compose.secrets).toHaveProperty(secret);
        expect(compose.networks.inner.ipam.config).toEqual([{ subnet: service.environment.TRUST_PROXY }]);
      }
    });

    test('lets processes start after the migration, and asks a page that exists whether they are ready', async () => {
      for (const name of ['userdir-a', 'userdir-b']) {
        const { depends_on, healthcheck } = compose.services[name];
        expect(depends_on).toEqual({ migrate: { condition: 'service_completed_successfully' } });
        const [, port, path] = /127\.0\.0\.1:(\d+)(\/\w+)/.exec(healthcheck.test.at(-1)) ?? [];
        expect(port).toBe('4000');
        expect(await statusOf(path ?? '')).toBe(200);
        const code = healthcheck.test.at(-1).replace('http://127.0.0.1:4000', app.url);
        const check = (script: string) => run(process.execPath, ['-e', script]);
        await check(code);
        await expect(check(code.replace(path, '/nothing'))).rejects.toMatchObject({ code: 1 });
      }
    });

    test('mounts files that exist, and publishes the port of HAProxy', async () => {
      const { ports, volumes } = compose.services.balancer;
      const [[file, target]] = volumes.map((each: string) => each.split(':'));
      expect(target).toBe('/usr/local/etc/haproxy/haproxy.cfg');
      await access(join(FOLDER, file));
      expect(await read('haproxy.cfg')).toContain(`  bind :${ports[0].split(':').at(-1)}\n`);
      await access(join(FOLDER, compose.services['userdir-a'].build.context, 'Dockerfile'));
    });
  });

  describe('haproxy.cfg', () => {
    test('sends requests to the processes of compose.yaml, and asks whether they are ready', async () => {
      const text = await read('haproxy.cfg');
      const servers = [...text.matchAll(/^ {2}server \w+ (\S+)$/gm)].map(([, server]) => server);
      expect(servers).toEqual(['userdir-a:4000', 'userdir-b:4000']);
      const [, path = ''] = /option httpchk GET (\S+)/.exec(text) ?? [];
      expect(path).toBe('/readyz');
    });

    test.runIf(existsSync('/usr/sbin/haproxy'))('is accepted by HAProxy', async () => {
      await run('/usr/sbin/haproxy', ['-c', '-f', join(FOLDER, 'haproxy.cfg')]);
    });
  });

  describe('kubernetes.yaml', () => {
    const MODELS = { Deployment, Job, PodDisruptionBudget, Service };
    let objects: Json[];
    const find = (kind: string) => objects.find((each) => each.kind === kind);
    beforeAll(async () => {
      // As Kubernetes reads it, where 0440 is octal.
      const documents = parseAllDocuments(await read('kubernetes.yaml'), { version: '1.1' });
      objects = documents.map((document) => document.toJS());
    });

    test('has valid objects', () => {
      expect(objects.map(({ kind }) => kind).sort()).toEqual(Object.keys(MODELS).sort());
      for (const object of objects) new MODELS[object.kind as keyof typeof MODELS](object).validate();
      const wrong = structuredClone(find('Deployment'));
      wrong.spec.replicas = 'two';
      expect(() => new Deployment(wrong).validate()).toThrow('replicas');
    });

    // The schemas leave room for fields that they do not know, such as misspelled ones. Types do not.
    test('has only fields that exist', async () => {
      const folder = await mkdtemp(join(import.meta.dirname, '.made-'));
      try {
        expect(await typeErrors(folder, objects)).toBe('');
        const wrong = structuredClone(objects);
        wrong.find(({ kind }) => kind === 'Deployment').spec.template.spec.terminationGracePeriod = 1;
        expect(await typeErrors(folder, wrong)).toContain('terminationGracePeriod');
      } finally {
        await rm(folder, { recursive: true });
      }
    });

    const podOf = (kind: string) => find(kind).spec.template.spec;

    test('gives the processes their settings, and more time than a stop takes', () => {
      const [{ env, args }] = podOf('Deployment').containers;
      const environment = Object.fromEntries(env.map(({ name, value }: Json) => [name, value]));
      expect(args).toEqual(['serve']);
      expect(podOf('Deployment').terminationGracePeriodSeconds).toBeGreaterThan(longestStop(environment));
      // The balancers of the nodes need some seconds to notice.
      expect(Number(environment['SHUTDOWN_DELAY_MS'])).toBeGreaterThanOrEqual(5_000);
      expect(podOf('Job').containers[0]).toMatchObject({ args: ['migrate'] });
    });

    test('asks /livez whether to restart a process and /readyz whether to use it, at its port', async () => {
      const [{ livenessProbe, readinessProbe, startupProbe, ports }] = podOf('Deployment').containers;
      const asked = [startupProbe, livenessProbe, readinessProbe].map(({ httpGet }) => httpGet.path);
      expect(asked).toEqual(['/livez', '/livez', '/readyz']);
      for (const path of asked) expect(await statusOf(path)).toBe(200);
      const [{ targetPort }] = find('Service').spec.ports;
      expect(ports).toContainEqual({ name: targetPort, containerPort: 4000 });
    });

    test('lets the Service and the disruption budget find the processes, and not the migration', () => {
      const { labels } = find('Deployment').spec.template.metadata;
      const selectors = [
        find('Deployment').spec.selector.matchLabels,
        find('Service').spec.selector,
        find('PodDisruptionBudget').spec.selector.matchLabels,
      ];
      for (const selector of selectors) {
        expect(labels).toMatchObject(selector);
        expect(find('Job').spec.template.metadata.labels).not.toMatchObject(selector);
      }
    });

    test.each(['Job', 'Deployment'])(
      'runs the %s of this version as nobody who may do more, with its secret',
      (kind) => {
        const { securityContext, containers, volumes, automountServiceAccountToken } = podOf(kind);
        const [container] = containers;
        expect(container.image).toBe(`registry.example.com/userdir:${version}`);
        expect(securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 1_000, fsGroup: 1_000 });
        expect(automountServiceAccountToken).toBe(false);
        expect(container.securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        });
        const { secret } = volumes.find(({ name }: Json) => name === 'database');
        const { mountPath } = container.volumeMounts.find(({ name }: Json) => name === 'database');
        expect(container.env).toContainEqual({
          name: 'DATABASE_URL_FILE',
          value: `${mountPath}/${secret.items[0].path}`,
        });
        expect(secret.defaultMode).toBe(0o440);
      },
    );
  });

  test('the Job of each version has a name of its own', async () => {
    expect(await read('kubernetes.yaml')).toContain(`name: userdir-migrate-${version.replaceAll('.', '-')}\n`);
  });
});

/** What the compiler says of the objects as values of the types of Kubernetes. */
async function typeErrors(folder: string, objects: Json[]): Promise<string> {
  const names = objects.map(({ apiVersion, kind }) => ({ module: `kubernetes-models/${apiVersion}`, kind }));
  const lines = [
    ...names.map(({ module, kind }) => `import type { I${kind} } from '${module}';`),
    ...objects.map((object, at) => `export const object${at}: I${object.kind} = ${JSON.stringify(object)};`),
  ];
  await writeFile(join(folder, 'objects.ts'), lines.join('\n'));
  const compilerOptions = { noEmit: true, strict: true, module: 'nodenext', skipLibCheck: true, types: [] };
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['objects.ts'] }));
  const compiler = join(ROOT, 'node_modules/.bin/tsc');
  return run(compiler, ['-p', folder]).then(
    () => '',
    ({ stdout, stderr }) => stdout + stderr,
  );
}
