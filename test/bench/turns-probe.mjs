/** Measures every turn of the event loop between two SIGUSR2; prints them as one JSON line on stderr. For turns.mjs, by `--import`. */
let isOn = false;
let last = 0;
let turns = [];

function measure() {
  const now = performance.now();
  turns.push(now - last);
  last = now;
  if (isOn) setImmediate(measure);
}

process.on('SIGUSR2', () => {
  isOn = !isOn;
  if (isOn) {
    turns = [];
    last = performance.now();
    setImmediate(measure);
    return;
  }
  turns.sort((a, b) => a - b);
  process.stderr.write(`${JSON.stringify({ p99Ms: longestAt(0.99), longestMs: turns.at(-1) ?? 0 })}\n`);
});

/** A moment taken at random lies in a turn no longer than this, with this probability. */
function longestAt(probability) {
  let left = probability * turns.reduce((sum, turn) => sum + turn, 0);
  return (
    turns.find((turn) => {
      left -= turn;
      return left <= 0;
    }) ?? 0
  );
}
