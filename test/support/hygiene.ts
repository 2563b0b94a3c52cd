/**
 * What no log, metric or trace may contain. The logs of every app and every process that the tests start are searched
 * when it ends.
 */
const NEVER: Record<string, RegExp> = {
  'an App Secret': /\buds_[\w-]{10,}/,
  'a secret of a webhook': /\bwhsec_[\w+/-]{10,}/,
  'the hash of a secret': /\b[0-9a-f]{64}\b|\b[A-Za-z0-9+/]{43}=/,
  'an email': /[\w.+-]+@[\w-]+\.[a-z]{2,}/i,
  'a Stellar address': /\bG[A-Z2-7]{55}\b/,
  'an Ethereum address': /\b0x[0-9a-f]{40}\b/i,
  'a header with credentials': /service-app-|authorization|\bbasic [\w+/]{8}/i,
};

/** Throws if a log contains forbidden data. */
export function requireCleanLog(log: string): void {
  for (const [what, form] of Object.entries(NEVER)) {
    const found = form.exec(log);
    if (found === null) continue;
    const around = log.slice(Math.max(0, found.index - 200), found.index + 200);
    throw new Error(`A log contains ${what}: …${around}…`);
  }
}
