import { describe, expect, inject, test } from 'vitest';
import { parseConfig } from '#dist/config/config.js';
import { createContext } from '#dist/context.js';
import { camelCase, parseProfile } from '#dist/domain/identities.js';
import { copyTemplate } from '../support/engines.js';

/** The embedded database has no statement timeout. */
describe.runIf(inject('engine') === 'postgres')(
  'a statement for two projects that times out because of one of them',
  () => {
    test('fails for that project only', async () => {
      const database = await copyTemplate();
      const config = parseConfig({ ...database.env, DATABASE_STATEMENT_TIMEOUT_MS: '1500' });
      const statements: string[] = [];
      const directory = createContext(config, {
        command: 'test',
        serving: true,
        onStatement: (sql) => statements.push(sql),
      });
      await directory.open();
      const { projects, users, logins } = directory.services;
      try {
        const [slow, quick] = await Promise.all(
          ['slow', 'quick'].map(async (name) => {
            const scope = await projects.getScope((await projects.createProject(name)).appId);
            const profile = parseProfile({ authMethod: 'email', authValue: `${name}@example.com` }, camelCase);
            const { user } = await logins.recordLogin(scope, profile);
            return { scope, id: BigInt(user.id) };
          }),
        );
        // Every read of a user of the slow project sleeps.
        await directory.db.pool.query(`
        ALTER TABLE users RENAME TO kept_users;
        CREATE VIEW users AS SELECT * FROM kept_users
        WHERE project_id <> ${slow?.scope.projectIdFor('operate')} OR pg_sleep(60)::text IS NOT NULL`);
        statements.length = 0;
        const answers = await Promise.allSettled(
          [slow, quick, slow].map((of) =>
            users.findUser((of as NonNullable<typeof of>).scope, (of as NonNullable<typeof of>).id),
          ),
        );
        expect(answers.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'rejected']);
        expect(answers).toMatchObject([
          { reason: { code: '57014' } },
          { value: { authValue: 'quick@example.com' } },
          {},
        ]);
        // Not what happens in the background.
        expect(statements.filter((sql) => sql.includes('key_index'))).toHaveLength(3);
      } finally {
        await directory.close();
        await database.drop();
      }
    });
  },
);
