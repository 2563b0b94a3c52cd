import { setTimeout as sleep } from 'node:timers/promises';
import type { Credentials } from './command.js';
import { openEvents } from './events.js';
import { createTimes, headersOf } from './writers.js';

/** Clients of a project that read again and again, through whatever happens. */

/** Between two questions of a client. */
const PAUSE_MS = 20;
/** Between two pages of changes, where there are no more. */
const POLL_MS = 50;

/** A request, and what its answer must contain. */
export interface Question {
  readonly path: string;
  readonly body?: object;
  readonly contains: string;
}

/** Asks in turn until `stop`, which returns how many were answered, what failed, and how long the slowest took. */
export function startReaders(url: string, project: Credentials, questions: readonly Question[], clients = 1) {
  const failures = new Map<string, number>();
  const times = createTimes();
  let answers = 0;
  let isOver = false;

  async function ask({ path, body, contains }: Question): Promise<string | null> {
    const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
    const [response, text] = await times.of(async () => {
      const answer = await fetch(url + path, { headers: headersOf(project), ...init });
      return [answer, await answer.text()] as const;
    });
    if (response.status === 200 && text.includes(contains)) return null;
    return `${response.status} read ${response.headers.get('retry-after')}${response.status === 200 ? ` ${path} ${text}` : ''}`;
  }

  const running = Array.from({ length: clients }, async () => {
    for (let turn = 0; !isOver; turn += 1) {
      const question = questions[turn % questions.length] as Question;
      const failure = await ask(question).catch(String);
      if (failure === null) answers += 1;
      else failures.set(failure, (failures.get(failure) ?? 0) + 1);
      await sleep(PAUSE_MS);
    }
  });
  return {
    longest: times.longest,
    async stop() {
      isOver = true;
      await Promise.all(running);
      return { answers, failures };
    },
  };
}

/** Follows the changes by pages, from now on: the users who were created, each time that one is named. */
export async function startFollower(url: string, project: Credentials) {
  const created: number[] = [];
  const failures = new Map<string, number>();
  let cursor = 'now';
  let isOver = false;
  const fail = (what: string) => void failures.set(what, (failures.get(what) ?? 0) + 1);

  async function readPage(): Promise<void> {
    const response = await fetch(`${url}/changes?limit=1000&after=${cursor}`, { headers: headersOf(project) });
    const text = await response.text();
    if (response.status !== 200) return fail(`${response.status} read ${response.headers.get('retry-after')}`);
    cursor = String(response.headers.get('userdir-next-cursor'));
    for (const { type, user_id: userId } of JSON.parse(text).result.changes) {
      if (type === 'user.created') created.push(userId);
    }
  }

  await readPage();
  const following = (async () => {
    for (; !isOver; await sleep(POLL_MS)) await readPage().catch((error) => fail(String(error)));
  })();
  return {
    created,
    failures,
    async stop() {
      isOver = true;
      await following;
    },
  };
}

/** Follows the changes by streams, from now on: each goes on after the last event of the one before. */
export async function startStream(url: string, project: Credentials) {
  const created: number[] = [];
  const failures = new Map<string, number>();
  const headers = headersOf(project);
  let cursor = String((await fetch(`${url}/changes?after=now`, { headers })).headers.get('userdir-next-cursor'));
  let streams = 0;
  let isOver = false;
  let close = () => {};

  async function follow(): Promise<void> {
    const stream = await openEvents(`${url}/changes?after=${cursor}`, { headers });
    if (stream.status !== 200) {
      failures.set(String(stream.status), (failures.get(String(stream.status)) ?? 0) + 1);
      return;
    }
    streams += 1;
    close = stream.close;
    for (let read = 0; !isOver && !(stream.isEnded() && read === stream.events.length); await sleep(POLL_MS)) {
      for (const { id, data } of stream.events.slice(read)) {
        const { type, user_id: userId } = JSON.parse(data);
        if (type === 'user.created') created.push(userId);
        // The event that ends a stream has none.
        cursor = id || cursor;
        read += 1;
      }
    }
  }

  const following = (async () => {
    while (!isOver) await follow();
  })();
  return {
    created,
    failures,
    async stop() {
      isOver = true;
      await following;
      close();
      return streams;
    },
  };
}
