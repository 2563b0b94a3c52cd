import { expect, test } from 'vitest';
import { stellarAddress } from '../support/addresses.js';
import { useTestApp } from '../support/app.js';

const app = useTestApp();

test('a user with an account reads the same over REST and GraphQL', async () => {
  const project = await app.createProject();
  await project.addUsers({
    auth_method: 'email',
    auth_value: 'Ada@example.com',
    created_at: '2026-01-02T03:04:05.678Z',
    login_count: 3,
    accounts: [{ network: 'stellar', public_key: stellarAddress(1) }],
  });
  const listed = await project.rest('/server/users');
  expect(listed.status).toBe(200);
  const [user] = listed.body.result.users;
  expect(user).toEqual({
    id: expect.any(Number),
    auth_method: 'email',
    auth_value: 'Ada@example.com',
    wallet: null,
    created_at: '2026-01-02T03:04:05.678Z',
    last_login: null,
    login_count: 3,
    accounts: [{ id: expect.any(Number), network: 'stellar', public_key: stellarAddress(1) }],
  });

  const { data } = await project.graphql(
    '{ users { totalCount nodes { id authValue createdAt accounts { network publicKey walletType } } } }',
  );
  expect(data.users).toEqual({
    totalCount: 1,
    nodes: [
      {
        id: String(user.id),
        authValue: 'Ada@example.com',
        createdAt: '2026-01-02T03:04:05.678Z',
        accounts: [{ network: 'STELLAR', publicKey: stellarAddress(1), walletType: 'CUSTODIAL' }],
      },
    ],
  });
});
