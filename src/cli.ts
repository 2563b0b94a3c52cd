#!/usr/bin/env node
import { BUILD_ADVICE, findBuildFault, findNodeFault } from './config/build.js';

// This file and build.ts run on Node.js 16 and newer, which cannot load the others.
const tooOld = findNodeFault();
if (tooOld !== null) {
  process.stderr.write(`userdir: ${tooOld}.\n`);
  process.exit(1);
}

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
