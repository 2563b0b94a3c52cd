import { ConfigError, parseConfig } from '#dist/config/config.js';

/** What is wrong with the settings of an environment; empty where nothing is. */
export function faultsOf(env: Record<string, string>): string[] {
  try {
    parseConfig(env);
  } catch (error) {
    if (error instanceof ConfigError) return error.faults;
    throw error;
  }
  return [];
}
