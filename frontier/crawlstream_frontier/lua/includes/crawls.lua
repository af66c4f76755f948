-- Crawls and their runs: opening, closing, ending.
-- Guarantee: a crawl has at most one running run; a run number is never given twice to a crawl,
--   not even after the crawl was forgotten. Closing detaches the crawl's number, so that a later
--   feed starts with a new one while the old entries are still being swept.
-- `names` HASH name -> "<c> <run> <live>": crawl number, latest run, whether the number still takes
--   entries. `stop:<name>` STRING "<timestamp> <place> <offset>": the record of the crawl's latest stop,
--   with its Kafka partition; set even for a crawl that is unknown yet.
-- For each Kafka partition with seeds of the run, `x:<c>` has `from:<place>`, time and offset of
--   the first seed, and `to:<place>`, the time of the latest.
-- Needs: clock, ledger.
local STOPPED = 'stopped'
local ENDINGS = { running = 'finished', stopping = STOPPED, expiring = 'expired' }
local REMEMBER_ENDED_MS = 3600 * 1000
local REMEMBER_STOP_MS = 24 * 3600 * 1000
local name_cache, stop_cache = {}, {}

local function load_name(name)
  local record = name_cache[name]
  if record == nil then
    local text = redis.call('HGET', K.names, name)
    record = false
    if text then
      local c, run, live = string.match(text, '^(%d+) (%d+) (%d)$')
      record = { c = c, run = tonumber(run), live = live == '1' }
    end
    name_cache[name] = record
  end
  return record or nil
end

local function save_name(name, record)
  redis.call('HSET', K.names, name,
    record.c .. ' ' .. int(record.run) .. ' ' .. (record.live and '1' or '0'))
  name_cache[name] = record
end

-- Return {at, place, offset} of the latest stop of a crawl; at is NEVER if there was none recently.
local function stop_of(name)
  local stop = stop_cache[name]
  if not stop then
    local text = redis.call('GET', K.stop(name))
    local at, place, offset = string.match(text or '', '^(%S+) (%S+) ?(%d*)$')
    stop = { at = tonumber(at or NEVER), place = place, offset = tonumber(offset) or NEVER }
    stop_cache[name] = stop
  end
  return stop
end

-- Return true if a seed was written before the crawl's last stop, but is read after it: it belongs to the
-- stopped run. Within the stop's own partition the order of offsets decides.
local function was_stopped_after(name, place, timestamp, offset)
  local stop = stop_of(name)
  if stop.place == place then
    return stop.offset > offset
  end
  return stop.at > timestamp
end

local function note_stop(name, place, timestamp, offset)
  if timestamp >= stop_of(name).at then
    stop_cache[name] = { at = timestamp, place = place, offset = offset }
    redis.call('SET', K.stop(name), int(timestamp) .. ' ' .. place .. ' ' .. int(offset),
      'PX', int(REMEMBER_STOP_MS))
  end
end

-- Return the seeds of a run by their Kafka partition: {time and offset of the first, latest
-- time}.
local function first_seeds(c)
  local fields, seeds = redis.call('HGETALL', K.ledger(c)), {}
  for i = 1, #fields, 2 do
    local kind, at = string.match(fields[i], '^(%a+):(.*)$')
    if kind == 'from' or kind == 'to' then
      local of = seeds[at] or {}
      seeds[at] = of
      if kind == 'from' then
        local time, offset = string.match(fields[i + 1], '^(%S+) ?(%d*)$')
        of.time, of.offset = tonumber(time), tonumber(offset)
      else
        of.latest = tonumber(fields[i + 1])
      end
    end
  end
  return seeds
end

-- Note that a seed of crawl c's run came through a Kafka partition; `is_first` unless earlier ones may have.
local function note_seed_from(c, place, timestamp, offset, is_first)
  local key, field = K.ledger(c), 'from:' .. place
  local text = int(timestamp) .. ' ' .. int(offset)
  if redis.call('HSETNX', key, field, text) == 0 and not is_first then
    local first = first_seeds(c)[place]
    redis.call('HSET', key, field, int(math.min(first.time, timestamp)) .. ' '
      .. int(math.min(first.offset or offset, offset)))
  end
end

-- Return true if a stop covers the run with these first seeds: a seed came before it, by offset or by
-- time. A run with only younger seeds was fed after the stop, although it was read before.
local function is_meant_by_stop(seeds, place, timestamp)
  for at, first in pairs(seeds) do
    if at == place or first.time <= timestamp then
      return true
    end
  end
  return next(seeds) == nil
end

local RUN_COUNTERS = { 'admitted', 'queued', 'delayed', 'held', 'done', 'failed', 'redirected',
  'skipped', 'spilled', 'stopped', 'expired', 'bytes', 'expires', 'expires_by', 'budget', 'budgets', 'budgets_by',
  'top', 'recovered', 'steered', 'occasion', 'families' }

-- End the pause of a run; return true if it was paused.
local function forget_pause(c)
  redis.call('ZREM', K.pauses, c)
  crawl_of(c).paused = nil
  return redis.call('HDEL', K.ledger(c), 'paused', 'paused_until') > 0
end

-- Return the position of each Kafka partition: {place, offset …}. Seeds of the crawl that must be
-- read again are above it (see `again`).
local function positions(name)
  local reached = redis.call('HGETALL', K.positions)
  for i = 1, redis.call('EXISTS', K.again) * #reached, 2 do
    local packed = redis.call('HGET', K.again, reached[i])
    for _, one in ipairs(packed and cmsgpack.unpack(packed) or {}) do
      if one[1] == name then
        reached[i + 1] = int(math.min(reached[i + 1], one[3]))
      end
    end
  end
  return reached
end

-- Pause a run until a time (epoch s); 0: until it is resumed.
-- `pauses` ZSET c -> epoch s at which its pause ends.
local function note_pause(c, until_s)
  forget_pause(c)
  redis.call('HSET', K.ledger(c), 'paused', '1')
  crawl_of(c).paused = true
  if until_s > 0 then
    redis.call('HSET', K.ledger(c), 'paused_until', int(until_s))
    redis.call('ZADD', K.pauses, int(until_s), c)
    wake_tend_by(now + until_s * 1000 - wall)
  end
end

-- Begin a run: the counters of the former one are dropped; caps, dedupe and their time to live stay. A run that was
-- lost with an earlier Redis begins again under its own number.
local function begin_run(c, name, run, lost, occasion)
  local SCORED, OF_HOSTS = 16, 32
  local key = K.ledger(c)
  for _, field in ipairs(redis.call('HKEYS', key)) do
    if string.find(field, '^[abnfkzpdrw]:') or string.find(field, '^from:') or string.find(field, '^to:') then
      redis.call('HDEL', key, field)
    end
  end
  local marks = (crawl_of(c).is_scored and SCORED or 0) + (crawl_of(c).has_host_budget and OF_HOSTS or 0)
  redis.call('HDEL', key, unpack(RUN_COUNTERS))
  if occasion then
    redis.call('HSET', key, 'occasion', occasion)
  end
  if lost and lost.remember then
    redis.call('HSETNX', key, 'remember', lost.remember)
  end
  deltas[c] = nil  -- This call's earlier counts belong to the former run.
  redis.call('HSET', key, 'name', name, 'run', int(run), 'state', 'running',
    'started', int(wall), 'active', int(wall))
  if lost or marks > 0 then
    redis.call('HSET', key, 'recovered', int(marks + (lost and 1 or 0)))
  end
  redis.call('ZREM', K.forget, c)
  redis.call('HINCRBY', K.totals, 'running', 1)
  crawl_cache[c] = nil
  if lost and lost.is_paused then
    note_pause(c, lost.until_s)
  end
  owe('crawl_started', c, { positions = positions(name), remember = redis.call('HGET', key, 'remember') or nil })
end

-- Forget pauses, shifts and notes about waiting: they end with the run.
local function forget_steering(c)
  forget_pause(c)
  for _, of_run in ipairs({ K.shifts, K.revisit, K.stalled, K.abandon }) do
    redis.call('HDEL', of_run, c)
  end
  redis.call('UNLINK', K.revisit_domains(c), K.abandon_domains(c))
end

-- Close the latest run of a crawl and detach its number: its queued pages leave the ledger at once,
-- its keys are swept in steps; leases may still end successfully. Return the number of removed entries,
-- and the run; nil if there is nothing to close.
local function close_run(name, state)
  local record = load_name(name)
  if not record or not record.live then
    return nil
  end
  local crawl = crawl_of(record.c)
  if crawl.budgets and state == 'expiring' then
    look_at_budgets(record.c, crawl, {})
  end
  record.live = false
  save_name(name, record)
  redis.call('SADD', K.sweep, record.c)
  redis.call('ZREM', K.expiry, record.c)
  if crawl.state ~= 'running' then
    return 0, record.run
  end
  save_ledger()
  local waiting = redis.call('HMGET', K.ledger(record.c), 'queued', 'delayed', 'spilled', 'shelved')
  local queued, delayed = tonumber(waiting[1] or 0), tonumber(waiting[2] or 0)
  local spilled = tonumber(waiting[3] or 0)
  redis.call('HSET', K.ledger(record.c), 'state', state)
  if crawl.budgets then
    redis.call('SREM', K.spending, record.c)
    if crawl.expires == OVER_S then
      redis.call('HSET', K.ledger(record.c), 'expires', int(math.floor(wall / 1000)))
    end
  end
  forget_steering(record.c)
  redis.call('ZREM', K.idle, record.c)
  redis.call('HINCRBY', K.totals, 'running', -1)
  crawl.state = state
  count(record.c, 'queued', -queued)
  count(record.c, 'delayed', -delayed)
  count(record.c, 'spilled', -spilled)
  count(record.c, 'shelved', -tonumber(waiting[4] or 0))
  redis.call('UNLINK', K.spills(record.c))
  count(record.c, state == 'stopping' and STOPPED or 'expired', queued + delayed + spilled)
  touched[record.c] = true
  wake_tend_by(now)
  return queued + delayed + spilled, record.run
end

-- Return, once, the run that was running when an earlier Redis was lost, if it is above `latest`.
local function lost_run(name, latest)
  local run, state, until_s, remember =
    string.match(redis.call('HGET', K.lost, name) or '', '^(%d+) ?(%a*) ?(%d*) ?(%d*)$')
  if run then
    redis.call('HDEL', K.lost, name)
    local lost = { run = tonumber(run), is_paused = state == 'paused', until_s = tonumber(until_s) or 0,
      remember = remember ~= '' and remember or nil }
    return lost.run > latest and lost or nil
  end
end

-- Return true if the time of a run is over; once found, it stays over (see `may_lease`).
local function is_over_time(c)
  local crawl = crawl_of(c)
  return crawl.state == 'running' and (not is_open(c)
    or crawl.expires > 0 and redis.call('ZSCORE', K.expiry, c) == '0')
end

-- Return the crawl number and run that a seed of this name, and perhaps of an occasion, enters. A run whose
-- time is over takes no seed that would prolong it: the seed opens the next one.
local function open_run(name, expires, occasion)
  local record = load_name(name)
  if record and record.live and is_over_time(record.c) and (expires == 0 or expires * 1000 > wall) then
    close_run(name, 'expiring')
  end
  if record and record.live and crawl_of(record.c).state == 'running' then
    redis.call('ZREM', K.idle, record.c)
    return record.c, record.run
  end
  local lost = lost_run(name, record and record.run or 0)
  if not record then
    record = { run = tonumber(redis.call('HGET', K.meta, 'run_floor') or 0) }
  end
  if not record.live then
    record.c, record.live = int(redis.call('HINCRBY', K.meta, 'crawls', 1)), true
  end
  record.run = lost and lost.run or record.run + 1
  save_name(name, record)
  begin_run(record.c, name, record.run, lost, occasion)
  return record.c, record.run
end

-- Return the records of an occasion that took effect, for a Redis that lost them and cannot read them again
-- because Kafka has deleted them: {part, its bits …}. A run's ending has the records of its latest occasion.
local MOST_PARTS = 245
local function seen_of(occasion)
  local seen = {}
  for part = 0, occasion and MOST_PARTS - 1 or -1 do
    local bits = redis.call('GET', K.occasion(occasion, int(part)))
    if bits then
      seen[#seen + 1], seen[#seen + 2] = part, bits
    end
  end
  return seen
end

-- End the run of crawl c, after its last entry, and note its ending for publication with the counters.
local function end_run(c, remember_ms)
  local crawl = crawl_of(c)
  local ending = ENDINGS[crawl.state]
  local fields = redis.call('HGETALL', K.ledger(c))
  redis.call('HSET', K.ledger(c), 'state', ending)
  forget_steering(c)
  redis.call('ZREM', K.expiry, c)
  if crawl.budgets then
    redis.call('SREM', K.spending, c)
  end
  redis.call('ZADD', K.forget, int(now + remember_ms), c)
  if crawl.used then
    redis.call('UNLINK', K.used(c))
  end
  if crawl.state == 'running' then
    redis.call('HINCRBY', K.totals, 'running', -1)
  else
    redis.call('UNLINK', K.profiles(c))
  end
  crawl.state = ending
  -- An ending that was published before an old copy of Redis was restored is not published again.
  if redis.call('HDEL', K.ledger(c), 'told') == 0 then
    owe('crawl_' .. ending, c, { fields = fields, positions = positions(crawl.name),
      seen = seen_of(crawl.occasion) })
  end
end
