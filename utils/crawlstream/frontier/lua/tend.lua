#!lua flags=allow-oom
-- tend: endings. Idle runs finish, late ones expire, ended crawls are forgotten.
-- Guarantee: a run ends once, decided here: only while nothing of it is queued, delayed or held, and
--   a running one only after `grace_ms` of idleness by the frontier clock.
-- KEYS: 1 prefix of the partition.
-- ARGV: 1 grace_ms, 2 dedupe_ms (how long dedupe outlives a finished run), 3 limit of each kind.
-- Returns: packed {ended, dead workers, crawls to sweep, next_ms|-1 (nothing falls due before), more}
-- Cost: three ordered ranges; O(log n) each run that ends. Idle: seven commands.
--- include: clock
--- include: ledger
--- include: crawls

local grace_ms, dedupe_ms, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

for _, c in ipairs(redis.call('ZRANGE', P .. 'expiry', '-inf', int(math.floor(wall / 1000)), 'BYSCORE',
  'LIMIT', 0, limit)) do
  redis.call('ZREM', P .. 'expiry', c)
  local crawl = crawl_of(c)
  if crawl.state == 'running' then
    close_run(crawl.name, 'expiring')
  end
end
save_ledger()

local ended = 0
local function is_empty(c)
  local left = redis.call('HMGET', P .. 'x:' .. c, 'queued', 'delayed', 'held')
  return tonumber(left[1] or 0) == 0 and tonumber(left[2] or 0) == 0 and tonumber(left[3] or 0) == 0
end

for _, c in ipairs(redis.call('ZRANGE', P .. 'idle', '-inf', int(now - grace_ms), 'BYSCORE',
  'LIMIT', 0, limit)) do
  redis.call('ZREM', P .. 'idle', c)
  local state = crawl_of(c).state
  if (state == 'running' or state == 'stopping' or state == 'expiring') and is_empty(c) then
    end_run(c, state == 'running' and dedupe_ms or REMEMBER_ENDED_MS)
    ended = ended + 1
  end
end

-- A finished crawl is swept before it is forgotten, so that its dedupe ends with it.
local function forget(c)
  local crawl = crawl_of(c)
  if redis.call('EXISTS', P .. 'k:' .. c, P .. 'f:' .. c) > 0 then
    local record = load_name(crawl.name)
    if record and record.c == c and record.live then
      record.live = false
      save_name(crawl.name, record)
    end
    redis.call('SADD', P .. 'sweep', c)
    redis.call('ZADD', P .. 'forget', int(now + REMEMBER_ENDED_MS), c)
    return
  end
  local record = crawl.name and load_name(crawl.name)
  if record and record.c == c then
    local floor = tonumber(redis.call('HGET', P .. 'm', 'run_floor') or 0)
    redis.call('HSET', P .. 'm', 'run_floor', int(math.max(floor, record.run)))
    redis.call('HDEL', P .. 'names', crawl.name)
  end
  redis.call('UNLINK', P .. 'x:' .. c)
  redis.call('ZREM', P .. 'forget', c)
end

for _, c in ipairs(redis.call('ZRANGE', P .. 'forget', '-inf', int(now), 'BYSCORE', 'LIMIT', 0, limit)) do
  forget(c)
end

local dead = redis.call('ZCOUNT', P .. 'workers', '-inf', int(now))
local to_sweep = redis.call('SCARD', P .. 'sweep')
local function first_at(index, offset)
  local first = redis.call('ZRANGE', P .. index, 0, 0, 'WITHSCORES')[2]
  return first and tonumber(first) + offset or 1e18
end
local next_at = math.min(first_at('idle', grace_ms), first_at('forget', 0), first_at('workers', 0),
  first_at('expiry', 0) * 1000 - wall + now)
save_clock()
return cmsgpack.pack({ ended, dead, to_sweep, next_at < 1e17 and math.max(next_at - now, 0) or -1 })
