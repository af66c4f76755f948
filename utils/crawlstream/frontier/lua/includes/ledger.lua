-- The ledger of a crawl's run: counters that add up at every instant, and its ending.
-- Guarantee: admitted = done + failed + redirected + stopped + expired + queued + delayed + held
--   once `save_ledger` has run. An ending is owed to the outbox in the script that decides it.
-- Record `x:<c>` of crawl number c: name, run, state, counters, expires, started, active.
-- States: running -> finished | stopping -> stopped | expiring -> expired.
local deltas = {}
local touched = {}

-- Add to a counter of crawl c; written by save_ledger.
local function count(c, field, amount)
  local of = deltas[c]
  if not of then
    of = {}
    deltas[c] = of
  end
  of[field] = (of[field] or 0) + amount
end

local crawl_cache = {}

-- {state, run, name, expires} of crawl c; state is nil for a crawl that is gone.
local function crawl_of(c)
  local record = crawl_cache[c]
  if not record then
    local x = redis.call('HMGET', P .. 'x:' .. c, 'state', 'run', 'name', 'expires')
    record = { state = x[1] or nil, run = x[2], name = x[3], expires = tonumber(x[4] or 0) }
    crawl_cache[c] = record
  end
  return record
end

-- Whether entries of crawl c may still be admitted and leased.
local function is_open(c)
  local crawl = crawl_of(c)
  return crawl.state == 'running' and (crawl.expires == 0 or crawl.expires * 1000 > wall)
end

-- Owe the world a record; redis-monitor publishes it.
local function owe(kind, c, details)
  local crawl = crawl_of(c)
  details.kind, details.name, details.run = kind, crawl.name, tonumber(crawl.run)
  details.time = math.floor(wall / 1000)
  redis.call('XADD', P .. 'outbox', '*', 'record', cmsgpack.pack(details))
end

local function wake_tend()
  redis.call('PUBLISH', P .. 'wake:tend', '1')
end

-- Write the counters; a run left without an entry becomes idle, or ends if it was told to.
local function save_ledger()
  for c, of in pairs(deltas) do
    local key = P .. 'x:' .. c
    for field, amount in pairs(of) do
      if amount ~= 0 then
        redis.call('HINCRBY', key, field, int(amount))
      end
    end
    redis.call('HSET', key, 'active', int(wall))
  end
  for c in pairs(touched) do
    local left = redis.call('HMGET', P .. 'x:' .. c, 'queued', 'delayed', 'held')
    if tonumber(left[1] or 0) == 0 and tonumber(left[2] or 0) == 0 and tonumber(left[3] or 0) == 0 then
      local since = crawl_of(c).state == 'running' and int(now) or '0'
      redis.call('ZADD', P .. 'idle', 'NX', since, c)
      wake_tend()
    end
  end
end
