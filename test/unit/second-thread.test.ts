import { expect, test, vi } from 'vitest';
import { createSecondThread } from '#dist/app/second-thread.js';
import { parseConfig } from '#dist/config/config.js';
import { asked, requestOf } from '../support/second-thread.js';

/** The life of the thread for heavy requests. */

const PATIENCE = { timeout: 50_000, interval: 20 };
const request = requestOf({ appId: 'a', grant: () => ({}) as never });
const isAlone = () => false;

test('a thread that cannot reach the database ends and says so, requests are refused, and it is started again', async () => {
  // Nothing listens on port 1.
  const config = parseConfig({ DATABASE_URL: 'postgres://postgres@127.0.0.1:1/none' });
  const failures: string[] = [];
  const thread = createSecondThread(config, {
    openPort: null,
    isAlone,
    onFailure: (error, what) => failures.push(`${what} ${(error as Error).message}`),
  });
  const secondThread = thread.taskOf('graphql');
  expect(secondThread.takes(request)).toBe(false);
  await vi.waitFor(() => expect(failures).toHaveLength(1), PATIENCE);
  expect(failures[0]).toMatch(/^The thread for heavy requests failed\. .*ECONNREFUSED/);
  await vi.waitFor(() => expect(thread.usage().isRunning).toBe(false), PATIENCE);
  expect(secondThread.isReady()).toBe(false);
  await expect(secondThread.answer(request, asked('{ userCount }'))).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  await vi.waitFor(() => {
    secondThread.takes(request);
    expect(thread.usage().starts).toBe(2);
  }, PATIENCE);
  await thread.close();
});

test('SECOND_THREAD=off: it is never started', () => {
  const options = { openPort: null, isAlone, onFailure: () => undefined };
  const thread = createSecondThread(parseConfig({ SECOND_THREAD: 'off' }), options);
  expect(thread.taskOf('graphql').takes(request)).toBe(false);
  expect(thread.usage()).toEqual({ requests: 0, starts: 0, isRunning: false });
});

test('a project that is alone does not start it', () => {
  const thread = createSecondThread(parseConfig({}), {
    openPort: null,
    isAlone: () => true,
    onFailure: () => undefined,
  });
  expect(thread.taskOf('verdicts').takes(request)).toBe(false);
  expect(thread.usage().starts).toBe(0);
});
