#!lua flags=allow-oom
-- tend: endings. Pauses end, idle runs finish, late ones expire, ended crawls and idle domains are forgotten.
-- Guarantee: a run ends once, decided here: only while nothing of it is queued, delayed or held, and
--   a running one only after `grace_ms` of idleness by the frontier clock, and if it came back with
--   a Redis that was lost, not before all seeds are read again, or an hour has passed; a paused one does not, it
--   becomes idle anew when it is resumed. Of several partitions none ends a run: the home does. Work that is due while
--   workers sleep (a wake-up got lost) wakes one. What has waited for its time is queued though no worker asks for it.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 grace_ms, 2 dedupe_ms (how long dedupe outlives a finished run, unless its seeds said), 3 limit of each kind,
--   4 most entries that may wait of a crawl, 5 in all (0: any number), which `admit` goes by.
-- Returns: packed {ended, dead workers, crawls to sweep, spiders to revise, crawls to revisit,
--   runs to abandon, is `watch` due, next_ms|-1 (nothing falls due before), is there more due now}
-- Cost: six ordered ranges; O(log n) each thing that ends. Idle: about fifteen commands.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: finish
--- include: crawls
--- include: steer

local SPIDERS_A_STEP, PROMOTED_A_STEP, RECHECK_STATE_MS = 20, 32, 60000
local REMEMBER_VIEW_MS, RECOVERY_MS = 3600000, 3600000
local grace_ms, dedupe_ms, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local is_more = false

-- Members of an index that are due, at most `limit`.
local function due_in(index, at)
  local due = redis.call('ZRANGE', index, '-inf', int(at), 'BYSCORE', 'LIMIT', 0, limit)
  is_more = is_more or #due == limit
  return due
end

-- While the frontier is being moved no run ends, and nothing is forgotten (see `withdraw`).
local is_moving = redis.call('HEXISTS', K.meta, 'moving') == 1

for _, c in ipairs(is_moving and {} or due_in(K.expiry, math.floor(wall / 1000))) do
  redis.call('ZREM', K.expiry, c)
  local crawl = crawl_of(c)
  if crawl.state == 'running' then
    close_run(crawl.name, 'expiring')
  end
end
for _, c in ipairs(due_in(K.pauses, math.floor(wall / 1000))) do
  steer.resume(c)
end
save_ledger()

-- Whether records of the past are to be read again since this Redis was lost, or an older copy of it:
-- a run that came back may get more seeds, by another partition than its first, which nobody may have
-- begun yet.
local function is_recovering()
  if now - restart > RECOVERY_MS then
    return false
  end
  local behind = redis.call('HGETALL', K.behind)
  for i = 1, #behind, 2 do
    local position = tonumber(redis.call('HGET', K.positions, behind[i]) or -1)
    if position < tonumber(behind[i + 1]) then
      return true
    end
  end
  return false
end

-- How long what a crawl has seen outlives a run of it that has finished.
local function remember_ms(c)
  local remember = redis.call('HGET', K.ledger(c), 'remember')
  return remember and remember * 1000 or dedupe_ms
end

local recovering = is_recovering()
local ended = 0
for _, c in ipairs(due_in(K.idle, now - grace_ms)) do
  redis.call('ZREM', K.idle, c)
  local crawl = crawl_of(c)
  local state = crawl.state
  if state == 'running' and (crawl.recovered and recovering or is_moving) then
    redis.call('ZADD', K.idle, int(now), c)
  elseif ENDINGS[state] and not crawl.paused and not (crawl.context and state == 'running') then
    end_run(c, state == 'running' and remember_ms(c) or REMEMBER_ENDED_MS)
    ended = ended + 1
  end
end

-- A finished crawl is swept before it is forgotten, so that its dedupe ends with it.
local function forget(c)
  local name = crawl_of(c).name
  local record = name and load_name(name)
  local is_latest = record and record.c == c
  if redis.call('EXISTS', K.domains(c), K.profiles(c)) > 0
    or redis.call('SISMEMBER', K.sweep, c) == 1 then
    if is_latest and record.live then
      record.live = false
      save_name(name, record)
    end
    redis.call('SADD', K.sweep, c)
    redis.call('ZADD', K.forget, int(now + REMEMBER_ENDED_MS), c)
    return
  end
  if is_latest then
    local floor = tonumber(redis.call('HGET', K.meta, 'run_floor') or 0)
    redis.call('HSET', K.meta, 'run_floor', int(math.max(floor, record.run)))
    redis.call('HDEL', K.names, name)
  end
  local context = crawl_of(c).context
  if context then
    redis.call('HDEL', K.closed, name .. ' ' .. int(context.generation))
    redis.call('UNLINK', K.need(c), K.wanted(c))
  end
  redis.call('UNLINK', K.ledger(c))
  redis.call('ZREM', K.forget, c)
end

for _, c in ipairs(is_moving and {} or due_in(K.forget, now)) do
  forget(c)
end

-- Forget the throttle states of domains that ran empty, once nothing in them holds back a request.
local function forget_states()
  local keys, domains = rules_known and due_in(K.spent, now) or {}, {}
  if #keys == 0 then
    return
  end
  for i = 1, #keys do
    domains[i] = domain_of(keys[i])
  end
  local states = load_states(keys)
  join_rules(domains, states)
  for i, key in ipairs(keys) do
    if spent_at(states[i]) <= now then
      redis.call('HDEL', K.states, key)
      redis.call('ZREM', K.spent, key)
    else
      redis.call('ZADD', K.spent, int(now + RECHECK_STATE_MS), key)
    end
  end
end

-- Forget the view of an egress group that has no workers any more.
local function drop_view(S, V)
  local asked = is_by_group and tonumber(redis.call('HGET', K.views(S), V) or now) or now
  if now - asked > REMEMBER_VIEW_MS then
    redis.call('UNLINK', K.waiting(V), K.ready(V), K.parked(V), K.asleep(V))
    redis.call('HDEL', K.views(S), V)
  end
end

-- Queue what has waited for its time, which leasing workers do otherwise: a spider may have none any more, and
-- only what is queued can fail (`watch`). Wake a worker where work is due and somebody sleeps; drop the names of
-- spiders that have nothing.
local function look_after(S)
  is_more = promote_delayed(S, PROMOTED_A_STEP) or is_more
  local has_work = redis.call('HLEN', K.tags(S)) > 1
  for _, V in ipairs(views_of(S)) do
    local due = next_due_in(V)
    has_work = has_work or due >= 0
    if due == 0 then
      wake(V, 1)
    end
    drop_view(S, V)
  end
  if not has_work then
    redis.call('DEL', K.tags(S), K.waiting(S))
    redis.call('SREM', K.spiders, S)
  end
end

forget_states()
for _, S in ipairs(redis.call('SRANDMEMBER', K.spiders, SPIDERS_A_STEP)) do
  look_after(S)
end

local function first_at(index, offset)
  local first = redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')[2]
  return first and tonumber(first) + offset or FOREVER
end

local watch_at = tonumber(redis.call('HGET', K.meta, 'watch_at') or 0)
local next_at = math.min(first_at(K.idle, grace_ms), first_at(K.forget, 0), first_at(K.workers, 0),
  (math.min(first_at(K.expiry, 0), first_at(K.pauses, 0))) * 1000 - wall + now)
redis.call('HSET', K.meta, 'grace', int(grace_ms), 'most_of_crawl', ARGV[4], 'most_of_all', ARGV[5],
  'tend_at', int(math.min(next_at, FOREVER)))
finish()
return cmsgpack.pack({ ended, redis.call('ZCOUNT', K.workers, '-inf', int(now)),
  redis.call('SCARD', K.sweep), redis.call('HLEN', K.revise), redis.call('HLEN', K.revisit),
  redis.call('HLEN', K.abandon), watch_at <= now,
  next_at < FOREVER and math.max(next_at - now, 0) or -1, is_more })
