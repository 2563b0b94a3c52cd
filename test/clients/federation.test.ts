import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { CLIENTS, hasClients } from '../support/clients.js';

/**
 * The service as a subgraph, beside orders (federation/orders.mjs): composed by Hive's library and asked by its gateway, as in the
 * example, and the same with Apollo's.
 */

const GATEWAYS = { Hive: 'gateway.mjs', Apollo: 'apollo.mjs' };

describe.runIf(hasClients).each(Object.entries(GATEWAYS))(
  "a federated graph with %s's gateway (installed by: npm ci --prefix test/clients)",
  (name, file) => {
    const app = useTestApp();
    let project: TestProject;
    let ids: string[];
    let orders: [id: string, userId: string][];
    let folder: string;
    let gateway: ChildProcess;
    let url: string;

    beforeAll(async () => {
      project = await app.createProject();
      await project.addUsers(
        ...Array.from({ length: 10 }, (_, index) => ({
          auth_method: 'email',
          auth_value: `user${index}@example.com`,
          accounts: [{ network: 'stellar', public_key: stellarAddress(index) }],
        })),
      );
      const { data } = await project.graphql('{ users(first: 10) { nodes { id } } }');
      ids = data.users.nodes.map(({ id }: Json) => id);
      // Two orders of each user, and one of a user who is gone.
      orders = [...ids, ...ids, '999999999'].map((id, index) => [`o${index}`, id]);
      // In this folder the imports of the packages resolve.
      folder = await mkdtemp(join(CLIENTS, '.made-gateway-'));
      for (const name of [file, 'orders.mjs']) await cp(join(CLIENTS, 'federation', name), join(folder, name));
      gateway = spawn(process.execPath, [file], {
        cwd: folder,
        env: {
          PATH: process.env['PATH'] ?? '',
          USERDIR_URL: app.url,
          APP_ID: project.appId,
          APP_SECRET: project.appSecret,
          PORT: '0',
          ORDERS: JSON.stringify(orders),
        },
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const lines = createInterface(gateway.stdout as NonNullable<typeof gateway.stdout>);
      const [line] = await Promise.race([once(lines, 'line'), once(lines, 'close')]);
      url = /^The gateway is at (\S+)$/.exec(line)?.[1] ?? '';
      expect(url, `${name}'s gateway did not start`).not.toBe('');
    });
    afterAll(async () => {
      gateway.kill('SIGTERM');
      if (gateway.exitCode === null) await once(gateway, 'exit');
      await rm(folder, { recursive: true });
    });

    async function ask(query: string, variables = {}): Promise<Json> {
      const response = await fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ query, variables }),
      });
      return response.json();
    }

    /** The statements that read users since the last call. */
    function reads(): number {
      return app.statements.splice(0).filter((sql) => /\busers u\b/.test(sql)).length;
    }

    const EMAIL = expect.stringMatching(/^user\d@example\.com$/);

    test('orders of the one subgraph get their users from the other, in one statement, and null for a user who is gone', async () => {
      reads();
      const { data, errors } = await ask('{ orders { id user { id email accounts { publicKey } } } }');
      expect(reads()).toBe(1);
      // Hive's gateway cannot fill the fields that every user has, and names the first. Apollo's answers null without an error.
      if (name === 'Hive') expect(errors).toMatchObject([{ path: ['orders', 20, 'user', expect.any(String)] }]);
      else expect(errors).toBeUndefined();
      const accounts = [{ publicKey: expect.stringMatching(/^G/) }];
      expect(data.orders).toEqual(
        orders.map(([id, userId]) => ({
          id,
          user: ids.includes(userId) ? { id: userId, email: EMAIL, accounts } : null,
        })),
      );
    });

    test('users get their orders, beside a total and a page of the same name in both subgraphs', async () => {
      const { data, errors } = await ask(
        'query ($first: Int!) { users(first: $first) { totalCount pageInfo { hasNextPage } nodes { email orders { id } } } }',
        { first: 3 },
      );
      expect(errors).toBeUndefined();
      expect(data.users).toEqual({
        totalCount: 10,
        pageInfo: { hasNextPage: true },
        nodes: [0, 1, 2].map((place) => ({ email: EMAIL, orders: [{ id: `o${place}` }, { id: `o${place + 10}` }] })),
      });
    });

    test('entities of queries that arrive together share statements', async () => {
      const query = '{ orders { user { email } } }';
      // 16 requests, and as many statements at a service that does not batch across requests. On a busy machine they may come one by one.
      for (let count = 16, round = 0; count === 16; round += 1) {
        expect(round).toBeLessThan(50);
        reads();
        const answers = await Promise.all(Array.from({ length: 16 }, () => ask(query)));
        for (const { data } of answers) expect(data.orders[0]).toEqual({ user: { email: EMAIL } });
        count = reads();
        expect(count).toBeGreaterThan(0);
      }
    });

    test('an error of this subgraph reaches the caller of the gateway with its code', async () => {
      const { errors } = await ask('{ user(id: "x") { id } }');
      expect(errors).toMatchObject([
        {
          message: 'id: got "x", expected decimal digits, 1 and up.',
          path: ['user'],
          extensions: { code: 'BAD_USER_INPUT' },
        },
      ]);
    });
  },
);
