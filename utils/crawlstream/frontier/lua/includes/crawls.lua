-- Crawls and their runs: opening, closing, ending.
-- Guarantee: a crawl has at most one run under way; a run number is never given twice to a crawl,
--   not even after the crawl was forgotten. Closing detaches the crawl's number, so that a later
--   feed starts afresh beside the entries that are still being swept.
-- `names` HASH name -> "<c> <run> <live> <stopped at> <stopped in>": number, latest run, whether the
--   number still takes entries, and the record (timestamp, partition) of the last stop.
-- Needs: clock, ledger.
local FINISHED, STOPPED = 'finished', 'stopped'
local ENDINGS = { running = FINISHED, stopping = STOPPED, expiring = 'expired' }
local REMEMBER_ENDED_MS = 3600 * 1000

local function parse_name_record(text)
  if not text then
    return nil
  end
  local c, run, live, stopped_at, stopped_in = string.match(text, '^(%d+) (%d+) (%d) (%d+) (.*)$')
  return { c = c, run = tonumber(run), live = live == '1', stopped_at = tonumber(stopped_at),
    stopped_in = stopped_in }
end

local function load_name(name)
  return parse_name_record(redis.call('HGET', P .. 'names', name))
end

local function save_name(name, record)
  redis.call('HSET', P .. 'names', name, record.c .. ' ' .. int(record.run) .. ' '
    .. (record.live and '1' or '0') .. ' ' .. int(record.stopped_at) .. ' ' .. record.stopped_in)
end

-- Whether a seed was produced before the crawl's last stop, but into another Kafka partition: it
-- belongs to the run that was stopped. Within the stop's own partition the order of offsets decides.
local function was_stopped_after(name, place, timestamp)
  local record = load_name(name)
  return record and record.stopped_at > timestamp and record.stopped_in ~= place
end

local RUN_COUNTERS = { 'admitted', 'queued', 'delayed', 'held', 'done', 'failed', 'redirected',
  'stopped', 'expired', 'bytes', 'expires' }

-- Begin a run: the counters of the former one are dropped, caps and dedupe stay.
local function begin_run(c, name, run)
  local key = P .. 'x:' .. c
  for _, field in ipairs(redis.call('HKEYS', key)) do
    if string.find(field, '^[nfz]:') then
      redis.call('HDEL', key, field)
    end
  end
  redis.call('HDEL', key, unpack(RUN_COUNTERS))
  redis.call('HSET', key, 'name', name, 'run', int(run), 'state', 'running',
    'started', int(wall), 'active', int(wall))
  redis.call('ZREM', P .. 'forget', c)
  crawl_cache[c] = nil
  owe('crawl_started', c, {})
end

-- The crawl number and run that a seed of this name enters.
local function open_run(name)
  local record = load_name(name)
  if record and record.live and crawl_of(record.c).state == 'running' then
    redis.call('ZREM', P .. 'idle', record.c)
    return record.c, record.run
  end
  if not record then
    local floor = tonumber(redis.call('HGET', P .. 'm', 'run_floor') or 0)
    record = { run = floor, stopped_at = 0, stopped_in = '-' }
  end
  if not record.live then
    record.c, record.live = int(redis.call('HINCRBY', P .. 'm', 'crawls', 1)), true
  end
  record.run = record.run + 1
  save_name(name, record)
  begin_run(record.c, name, record.run)
  return record.c, record.run
end

-- Close the latest run of a crawl and detach its number: what waits is gone at once from the ledger,
-- its keys are swept in steps; what is held may still end well. Answers how many entries waited,
-- and the run; nil where there is nothing to close.
local function close_run(name, state, stop)
  local record = load_name(name)
  if not record or not record.live then
    return nil
  end
  local key = P .. 'x:' .. record.c
  local crawl = crawl_of(record.c)
  record.live = false
  if stop then
    record.stopped_in, record.stopped_at = stop[1], stop[2]
  end
  save_name(name, record)
  redis.call('SADD', P .. 'sweep', record.c)
  redis.call('ZREM', P .. 'expiry', record.c)
  if crawl.state ~= 'running' then
    return 0, record.run
  end
  local counter = state == 'stopping' and STOPPED or 'expired'
  save_ledger()
  deltas, touched = {}, {}
  local waiting = redis.call('HMGET', key, 'queued', 'delayed')
  local purged = tonumber(waiting[1] or 0) + tonumber(waiting[2] or 0)
  redis.call('HSET', key, 'state', state, 'queued', '0', 'delayed', '0', counter, int(purged))
  crawl.state = state
  redis.call('ZREM', P .. 'idle', record.c)
  touched[record.c] = true
  wake_tend()
  return purged, record.run
end

-- End the run of crawl c, whose last entry is gone, and owe its ending with the counters.
local function end_run(c, remember_ms)
  local crawl = crawl_of(c)
  local ending = ENDINGS[crawl.state]
  local fields = redis.call('HGETALL', P .. 'x:' .. c)
  redis.call('HSET', P .. 'x:' .. c, 'state', ending)
  crawl.state = ending
  redis.call('ZREM', P .. 'expiry', c)
  redis.call('ZADD', P .. 'forget', int(now + remember_ms), c)
  owe('crawl_' .. ending, c, { fields = fields })
end
