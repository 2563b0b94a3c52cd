import { setTimeout as sleep } from 'node:timers/promises';
import type { Json } from './app.js';
import type { Credentials } from './command.js';

/** Clients of a project that register users and read each one right after, through whatever happens. */

const LOGIN = `mutation ($value: String!) { recordLogin(input: { authMethod: "passkey", authValue: $value }) { user { id } } }`;
/** Between two turns of a client: without a pause clients would take the machine from what is looked at. */
const PAUSE_MS = 20;

export function headersOf({ app_id, app_secret }: Credentials): Record<string, string> {
  return { 'service-app-id': app_id, 'service-app-secret': app_secret, 'content-type': 'application/json' };
}

export async function graphql(url: string, project: Credentials, query: string, variables: object = {}) {
  const response = await fetch(`${url}/graphql`, {
    method: 'POST',
    headers: headersOf(project),
    body: JSON.stringify({ query, variables }),
  });
  const retryAfter = response.headers.get('retry-after');
  return { status: response.status, retryAfter, body: (await response.json()) as Json };
}

/** What failed could be sent again: it is 503, and says when. */
export const RETRYABLE: RegExp = /^503 (UNAVAILABLE|read) 1$/;

/** How long requests took. */
export function createTimes() {
  const times: { readonly since: number; readonly until: number }[] = [];
  return {
    async of<Answer>(request: () => Promise<Answer>): Promise<Answer> {
      const since = performance.now();
      try {
        return await request();
      } finally {
        times.push({ since, until: performance.now() });
      }
    },
    /** The longest, in milliseconds, of those that were open at some time of a span. */
    longest(since = 0, until = Number.POSITIVE_INFINITY): number {
      const open = times.filter((each) => each.until >= since && each.since <= until);
      return Math.round(open.reduce((longest, each) => Math.max(longest, each.until - each.since), 0));
    },
  };
}

/** Starts clients. `stop` returns what happened, and looks at `whole` for what was acknowledged. */
export function startLoad(url: string, project: Credentials, clients: number, whole = url) {
  const acknowledged: string[] = [];
  const successes: number[] = [];
  const failures = new Map<string, number>();
  let missing = 0;
  const times = createTimes();
  let isOver = false;
  const fail = (what: string) => void failures.set(what, (failures.get(what) ?? 0) + 1);

  async function registerAndRead(value: string): Promise<void> {
    const { status, retryAfter, body } = await times.of(() => graphql(url, project, LOGIN, { value }));
    const id = body.data?.recordLogin?.user.id;
    if (id === undefined) return fail(`${status} ${body.errors?.[0].extensions.code} ${retryAfter}`);
    acknowledged.push(id);
    successes.push(performance.now());
    const found = await times.of(() => fetch(`${url}/server/users/${id}`, { headers: headersOf(project) }));
    await found.arrayBuffer();
    if (found.status === 404) missing += 1;
    else if (found.status !== 200) fail(`${found.status} read ${found.headers.get('retry-after')}`);
  }

  const running = Array.from({ length: clients }, async (_, client) => {
    for (let turn = 0; !isOver; turn += 1) {
      await registerAndRead(`${performance.now()}-${client}-${turn}`).catch((error) => fail(String(error)));
      await sleep(PAUSE_MS);
    }
  });
  return {
    successes,
    longest: times.longest,
    async stop() {
      isOver = true;
      await Promise.all(running);
      successes.sort((a, b) => a - b);
      const gapMs = successes.reduce((longest, at, index) => Math.max(longest, at - (successes[index - 1] ?? at)), 0);
      const lost = await countLost(whole, project, acknowledged);
      return { acknowledged: acknowledged.length, failures, missing, gapMs: Math.round(gapMs), lost };
    },
  };
}

/** How many of the users are not there. */
export async function countLost(url: string, project: Credentials, ids: readonly string[]): Promise<number> {
  let lost = 0;
  for (let start = 0; start < ids.length; start += 100) {
    const { body } = await graphql(url, project, 'query ($ids: [ID!]!) { usersByIds(ids: $ids) { id } }', {
      ids: ids.slice(start, start + 100),
    });
    lost += body.data.usersByIds.filter((user: object | null) => user === null).length;
  }
  return lost;
}
