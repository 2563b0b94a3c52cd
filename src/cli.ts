#!/usr/bin/env node
import { BUILD_ADVICE, findBuildFault } from './config/build.js';

// Before the other files are loaded, of which some may be missing. Doctor tells a fault with all else that it finds, if it can be loaded.
const fault = findBuildFault();
const command =
  fault === null || process.argv[2] === 'doctor'
    ? await import('./cli/main.js').catch((error) => {
        if (fault === null) throw error;
      })
    : undefined;
if (command === undefined) {
  process.stderr.write(`userdir: ${fault}. ${BUILD_ADVICE}\n`);
  process.exit(1);
}
await command.main();
