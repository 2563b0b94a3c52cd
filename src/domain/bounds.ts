/* Numbers that more than one place tells. Pages of the dashboard tell some, so this file imports nothing. */

export const PAGE_SIZE = { default: 10, max: 100 } as const;

/** Bounds of a search by the beginning of a text: users that it finds, and login methods in which it looks at identities. */
export const MOST_BY_PREFIX = 50;
export const METHODS_BY_PREFIX = 10;

/** The most users who are asked for, or changed, one by one. */
export const MAX_IDS = 100;

/** The most rows of a page of the operators' schema. */
export const MAX_ROWS = 100;

/** The most rows of a list that has no pages. */
export const MAX_LISTED = 1_000;

/** The most removed users who are found by what they had. */
export const MAX_REMOVED = 100;

/** The users of the list that a page by state looks at. */
export const SCANNED = 1_000;

/** So many attempts that were accepted are kept of a webhook, and as many that failed, and for so long. */
export const ATTEMPTS_KEPT = 50;
export const ATTEMPTS_KEPT_MS = 30 * 86_400_000;

/** The time in which a link can be used, in which a session of an operator may rest, and in which it ends. */
export const LINK_MS = 10 * 60_000;
export const IDLE_MS = 30 * 60_000;
export const SESSION_MS = 12 * 3_600_000;

/** Other work waits so long for an import of its project: longer than a million users take. */
export const IMPORT_WAIT_MS = 900_000;

/** A server that publishes changes and is silent for so long is frozen: another one ends its session. */
export const FROZEN_LEADER_SECONDS = 10;

/** The most requests in a minute that a project can be allowed. A constraint of the table says the same. */
export const MAX_REQUESTS_PER_MINUTE = 100_000_000;

/** The largest body of a request; and with wallets to verify, which is twice as much as the longest need. */
export const BODY_BYTES = 1_048_576;
export const VERDICTS_BODY_BYTES = 262_144;
/** Node's limit for the URL and the headers of a request together. */
export const HEADER_BYTES = 16_384;
/** More than any client sends, with the proxies in front of it. Beyond a thousand, Node drops headers in silence. */
export const MAX_HEADERS = 100;
