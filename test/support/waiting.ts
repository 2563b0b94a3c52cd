/** How long a test waits for what must come, also on a machine that runs much else: `vi.waitUntil(isThere, PATIENCE)`. */
export const PATIENCE = { timeout: 60_000, interval: 20 } as const;
