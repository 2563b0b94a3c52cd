/** Takes a data directory, says so on stdout, and holds it until it is killed. Arguments: the directory, the module under test. */
const [dataDir, moduleUrl] = process.argv.slice(2);
const { lockDataDir, DataDirLockedError } = await import(moduleUrl);
try {
  await lockDataDir(dataDir, { command: 'holder' }, { waitMs: 0, heartbeatMs: 20, deadAfterMs: 3_600_000 });
  process.stdout.write('held\n');
  process.stdin.resume();
} catch (error) {
  if (!(error instanceof DataDirLockedError)) throw error;
  process.stdout.write('refused\n');
}
