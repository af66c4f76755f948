-- The ledger of a crawl's run: counters whose sides are equal at all times, and its ending.
-- Guarantee: admitted = done + failed + redirected + skipped + stopped + expired + queued + delayed + held
--   + spilled once `save_ledger` has run. The script that decides an ending writes it to the outbox.
-- Record `x:<c>` of crawl number c: name, run, state, counters, expires, started, active.
-- `totals` HASH: queued (including `shelved`), delayed, held, spilled over all crawls, and limbo, which is not
--   admitted yet; `running`, the number of running runs.
-- States: running -> finished | stopping -> stopped | expiring -> expired.
local TOTALS = { queued = true, shelved = true, delayed = true, held = true, spilled = true, limbo = true }
local deltas, touched = {}, {}

-- Add to a counter of crawl c; written by save_ledger.
local function count(c, field, amount)
  local of = deltas[c]
  if not of then
    of = {}
    deltas[c] = of
  end
  of[field] = (of[field] or 0) + amount
end

local crawl_cache, crawl_of, has_scored, has_host_budgets = {}, nil, false, false

--- include: standings

local wake_tend_by

--- include: budgets

-- Return {state, run, name, expires, paused, recovered, occasion, parts, context} of crawl c; state is nil for an
-- unknown crawl. `budgets`: those of its run, and what it has spent of them; `used`: see `domain_budgets`; `is_scored`:
-- see `inlinks`; `has_host_budget`: see `host_budgets`.
function crawl_of(c)
  local record = crawl_cache[c]
  if not record then
    local x = redis.call('HMGET', K.ledger(c), 'state', 'run', 'name', 'expires', 'paused',
      'recovered', 'occasion', 'parts', 'label')
    record = { state = x[1] or nil, run = x[2], name = x[3], expires = tonumber(x[4] or 0),
      paused = x[5] and true or nil, recovered = x[6] and x[6] % 2 == 1 or nil, occasion = x[7] or nil,
      parts = x[8] and true or nil, context = x[9] and standings().read(x[9]) or nil }
    crawl_cache[c] = record
    if x[6] and x[6] ~= '1' then
      local BUDGETED, USED, SCORED, OF_HOSTS = 2, 4, 16, 32
      local own, used = x[6] % USED, x[6] % SCORED
      record.used = own < used and used - own or nil
      record.is_scored = x[6] % OF_HOSTS >= SCORED or nil
      record.has_host_budget = tonumber(x[6]) >= OF_HOSTS or nil
      has_scored, has_host_budgets = has_scored or record.is_scored, has_host_budgets or record.has_host_budget
      if own >= BUDGETED then
        look_at_budgets(c, record)
      end
    end
  end
  return record
end

-- Return true if entries of crawl c may still be admitted; `bands` decides whether they may be leased. With several
-- partitions, only the coordinator decides that the time of a run is over.
local function is_open(c)
  local crawl = crawl_of(c)
  return crawl.state == 'running' and (crawl.expires == 0 or crawl.context ~= nil or not has_come(crawl.expires))
end

-- Write a record of crawl c, or without one of the crawl and run that the details name, to the outbox;
-- redis-monitor publishes it.
local function owe(kind, c, details)
  local crawl = c and crawl_of(c) or details
  details.kind, details.name, details.run = kind, crawl.name, tonumber(crawl.run)
  details.occasion = crawl.occasion
  details.time = math.floor(wall / 1000)
  redis.call('XADD', K.outbox, '*', 'record', cmsgpack.pack(details))
end

-- Note that `tend` has work at `at`: wake its callers if their next call is later.
function wake_tend_by(at)
  local tend_at = tonumber(redis.call('HGET', K.meta, 'tend_at') or FOREVER)
  if at < tend_at then
    redis.call('HSET', K.meta, 'tend_at', int(at))
    redis.call(PUBLISH, K.wake_tend, '1')
  end
end

-- Mark a run without entries as idle, or end it at once if it is being stopped.
local function note_idle()
  local due
  for c in pairs(touched) do
    local left = redis.call('HMGET', K.ledger(c), 'queued', 'delayed', 'held', 'spilled')
    if tonumber(left[1] or 0) + tonumber(left[2] or 0) + tonumber(left[3] or 0)
      + tonumber(left[4] or 0) == 0 then
      local since = crawl_of(c).state == 'running' and now or 0
      redis.call('ZADD', K.idle, 'NX', int(since), c)
      due = math.min(due or since, since)
    end
  end
  if due then
    wake_tend_by(due + tonumber(redis.call('HGET', K.meta, 'grace') or 0))
  end
end

local function save_ledger()
  local totals = {}
  for c, of in pairs(deltas) do
    local key = K.ledger(c)
    for field, amount in pairs(of) do
      if amount ~= 0 then
        redis.call('HINCRBY', key, field, int(amount))
        if TOTALS[field] then
          totals[field] = (totals[field] or 0) + amount
        end
      end
    end
    redis.call('HSET', key, 'active', int(wall))
    if crawl_cache[c] and crawl_cache[c].budgets then
      look_at_budgets(c, crawl_cache[c], of)
    end
  end
  for field, amount in pairs(totals) do
    redis.call('HINCRBY', K.totals, field, int(amount))
  end
  note_idle()
  deltas, touched = {}, {}
end
