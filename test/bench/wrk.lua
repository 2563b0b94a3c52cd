-- Sends the requests of a file in turn and writes what came of it as JSON: see load.mjs.
local threads = {}
local requests = {}
local place = 0
local sent = 0
local expected = os.getenv("BENCH_EXPECTED")
local first, step, count = os.getenv("BENCH_NUMBERS"):match("(%d+) (%d+) (%d+)")

function setup(thread)
  threads[#threads + 1] = thread
end

function init()
  failures = 0
  local file = assert(io.open(os.getenv("BENCH_REQUESTS"), "rb"))
  for request in (file:read("*a") .. "\0"):gmatch("(.-)%z") do
    requests[#requests + 1] = request
  end
  file:close()
end

function request()
  place = place % #requests + 1
  if not first then
    return requests[place]
  end
  sent = sent + 1
  if sent > tonumber(count) then
    failures = failures + 1
  end
  return (requests[place]:gsub("{{number}}", string.format("%.0f", first + sent * step % count)))
end

-- GraphQL says 200 and errors.
function response(status, _, body)
  if status ~= 200 or body:find('"errors"', 1, true) or not body:find(expected, 1, true) then
    failures = failures + 1
  end
end

function done(summary, latency)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.timeout
  for _, thread in ipairs(threads) do
    failed = failed + thread:get("failures")
  end
  local file = assert(io.open(os.getenv("BENCH_RESULT"), "w"))
  file:write(string.format(
    '{"seconds":%f,"responses":%d,"failures":%d,"p50Ms":%f,"p99Ms":%f}',
    summary.duration / 1e6, summary.requests, failed, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
  file:close()
end
