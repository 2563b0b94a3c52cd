/**
 * One of several processes that fight for a data directory: takes its lock, says so in a log, leaves it again, many times.
 * Now and then it leaves it as a dead process would. File calls are slowed down at random, so that every interleaving of
 * the contenders comes up. Arguments: the data directory, the log, a name, the number of rounds, the module under test.
 */
import { appendFileSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import fs from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const [dataDir, log, name, rounds, moduleUrl] = process.argv.slice(2);
/** Beyond what any system gives to a process. */
const NO_PID = 4_194_305;

for (const [call, chance, longestMs] of [
  ['link', 0.3, 200],
  ['readdir', 0.05, 10],
  ['readFile', 0.05, 10],
  ['rm', 0.05, 10],
]) {
  const original = fs[call];
  fs[call] = async (...args) => {
    if (Math.random() < chance) await sleep(Math.random() * longestMs);
    return original(...args);
  };
}
syncBuiltinESMExports();
const { lockDataDir, DataDirLockedError } = await import(moduleUrl);

for (let round = 0; round < Number(rounds); round += 1) {
  const lock = await takeLock();
  appendFileSync(log, `+${name}\n`);
  await sleep(1);
  appendFileSync(log, `-${name}\n`);
  if (Math.random() < 0.4) leaveAsDead();
  else await lock.release();
}
process.exit(0);

async function takeLock() {
  for (;;) {
    try {
      return await lockDataDir(dataDir, { command: name }, { waitMs: 0 });
    } catch (error) {
      if (!(error instanceof DataDirLockedError)) throw error;
      await sleep(1);
    }
  }
}

/** Puts a process that does not exist into this one's lock file. */
function leaveAsDead() {
  for (const file of readdirSync(dataDir).filter((each) => /^lock\.\d+$/.test(each))) {
    const holder = readHolder(file);
    if (holder?.pid !== process.pid) continue;
    const draft = join(dataDir, `dead-${name}`);
    writeFileSync(draft, JSON.stringify({ ...holder, pid: NO_PID }));
    renameSync(draft, join(dataDir, file));
  }
}

/** Null where a contender has withdrawn his file meanwhile. */
function readHolder(file) {
  try {
    return JSON.parse(readFileSync(join(dataDir, file), 'utf8'));
  } catch {
    return null;
  }
}
