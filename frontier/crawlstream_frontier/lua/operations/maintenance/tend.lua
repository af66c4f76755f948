#!lua flags=allow-oom
-- tend: end pauses, finish idle runs, expire late ones, forget ended crawls and idle domains.
-- Guarantee: a run ends once, decided here: only while it has no page queued, delayed or held. A
--   running one ends only after `grace_ms` of idleness by the frontier clock, and if it was restored after the
--   loss of a Redis, not before all seeds are read again, or an hour has passed. A paused one does not end; its
--   idleness begins again when it is resumed. With several partitions only the coordinator ends runs. If work is due
--   while workers sleep (a wake-up got lost), one is woken. Delayed entries are queued when due, without a worker's
--   call.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 grace_ms, 2 dedupe_ms (how long dedupe outlives a finished run, unless its seeds set it), 3 limit per kind,
--   4 most waiting entries of a crawl, 5 in all (0: any number), which `admit` obeys.
-- Returns: packed {ended, dead workers, crawls to sweep, spiders to revise, crawls to revisit,
--   runs to abandon, is `watch` due, next_ms|-1 (nothing falls due before), is there more due now}
-- Cost: six ordered ranges; O(log n) per thing that ends. Idle: about fifteen commands.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: crawls
--- include: steer

local SPIDERS_A_STEP, PROMOTED_A_STEP, RECHECK_STATE_MS = 20, 32, 60000
local REMEMBER_VIEW_MS, RECOVERY_MS = 3600000, 3600000
local grace_ms, dedupe_ms, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local is_more = false

-- Return members of an index that are due, at most `limit`.
local function due_in(index, at)
  local due = redis.call('ZRANGE', index, '-inf', int(at), 'BYSCORE', 'LIMIT', 0, limit)
  is_more = is_more or #due == limit
  return due
end

-- While the frontier is being moved no run ends, and nothing is forgotten (see `withdraw`).
local is_moving = redis.call('HEXISTS', K.meta, 'moving') == 1

for _, c in ipairs(redis.call('SMEMBERS', K.spending)) do
  look_at_budgets(c, crawl_of(c), {})
end
local expired_by, trusted_from = trusted(wall)
for _, c in ipairs(is_moving and {} or due_in(K.expiry, math.floor(expired_by / 1000))) do
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

-- Return true while old records must be read again because this Redis was lost, or is an older copy: a
-- restored run may get more seeds from another Kafka partition than its first, which no process may have
-- begun to read yet.
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

-- Return how long a crawl remembers its pages after a finished run.
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

-- Forget a finished crawl, after sweeping it, so that its dedupe ends with it.
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

-- Delete the throttle states of domains without pages, once they hold back no request.
local function forget_states()
  local keys, domains = rules_known and due_in(K.spent, now) or {}, {}
  if #keys == 0 then
    return
  end
  for i = 1, #keys do
    domains[i] = domain_of(keys[i])
  end
  local states = load_states(keys)
  join_rules(gates and gates.inside().ruled_by(domains) or domains, states, gates)
  for i, key in ipairs(keys) do
    if spent_at(states[i]) <= now then
      redis.call('HDEL', K.states, key)
      redis.call('ZREM', K.spent, key)
      if states[i].latency then
        made_gentle.forget(key)
      end
    else
      redis.call('ZADD', K.spent, int(now + RECHECK_STATE_MS), key)
    end
  end
end

-- Delete the view of an egress group that has no workers any more.
local function drop_view(S, V)
  local asked = is_by_group and tonumber(redis.call('HGET', K.views(S), V) or now) or now
  if now - asked > REMEMBER_VIEW_MS then
    redis.call('UNLINK', K.waiting(V), K.ready(V), K.parked(V), K.asleep(V))
    if gates then
      gates.inside().changes().drop(V)
    end
    redis.call('HDEL', K.views(S), V)
  end
end

-- Queue due entries, which leasing workers do otherwise: a spider may have no workers any more, and
-- only queued entries can fail (`watch`). Wake a worker if work is due and one sleeps; remove spiders
-- without entries.
local function look_after(S)
  is_more = delays.promote(S, PROMOTED_A_STEP) or is_more
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
    if gates then
      gates.inside().changes().drop(S)
    end
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
  math.max(first_at(K.expiry, 0) * 1000 - wall + now, trusted_from), first_at(K.pauses, 0) * 1000 - wall + now)
redis.call('HSET', K.meta, 'grace', int(grace_ms), 'most_of_crawl', ARGV[4], 'most_of_all', ARGV[5],
  'tend_at', int(math.min(next_at, FOREVER)))
finish()
return cmsgpack.pack({ ended, redis.call('ZCOUNT', K.workers, '-inf', int(now)),
  redis.call('SCARD', K.sweep), redis.call('HLEN', K.revise), redis.call('HLEN', K.revisit),
  redis.call('HLEN', K.abandon), watch_at <= now,
  next_at < FOREVER and math.max(next_at - now, 0) or -1, is_more })
