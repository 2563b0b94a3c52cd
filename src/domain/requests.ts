/** How much a project did in an hour. */
export interface Tally {
  requests: number;
  /** Those whose answer was an error or had one. */
  failures: number;
  /** Logins and registrations that were counted. */
  logins: number;
}

export interface RequestHour extends Readonly<Tally> {
  /** When it began. */
  readonly from: string;
}

/**
 * A request of a project, as operators may see it: what the log has of it, too. Nothing of its URL, its body or its headers except its ID,
 * and no name that could be a secret or an address.
 */
export interface RecentRequest {
  readonly appId: string;
  readonly id: string;
  /** When it was answered, in milliseconds since 1970. */
  readonly at: number;
  readonly ms: number;
  readonly method: string;
  /** The pattern of its path. */
  readonly route: string;
  /** The name of its GraphQL operation. */
  readonly operation: string | null;
  readonly cost: number | null;
  readonly status: number;
  /** Of the first error of its answer. */
  readonly code: string | null;
  /** The label of its secret. */
  readonly secret: string;
}

/** How long an `X-Request-Id` may be that the service takes over from its caller. */
export const MAX_REQUEST_ID = 128;

export const hasFailed = ({ status, code }: Pick<RecentRequest, 'status' | 'code'>) => code !== null || status >= 400;
export const newestFirst = (one: RecentRequest, other: RecentRequest): number => other.at - one.at;

/** Which requests, of one project or of all. */
export interface RequestsQuestion {
  readonly appId: string | null;
  readonly requestId: string | null;
  readonly isFailed: boolean;
}

/** What a process remembers: the newest of the requests that match, and since when. */
export interface Remembered {
  readonly since: number;
  readonly requests: readonly RecentRequest[];
}

/** Asks all processes of this host; null for one that does not answer. */
export type AskForRequests = (question: RequestsQuestion) => Promise<readonly (Remembered | null)[]>;
