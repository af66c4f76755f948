#!lua flags=allow-oom
-- overdue: return the ends that are due in a coordinator: open runs whose time is over, and crawls whose memory of
--   pages is, some time after their last run. The caller writes them to Kafka, then calls `lapse`.
-- Guarantee: an end that was answered once is final: until then the crawl takes no seed, and the end is answered
--   again. This script forgets crawls whose generation had no run for an hour. Nothing ends while the frontier moves.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 grace_ms: time after its last seed in which a run does not expire, as partitions may be reading it;
--   2 dedupe_ms (time for which a crawl remembers its pages, unless its seeds set one), 3 at most of each kind.
-- Returns: packed {'OK', life, {to note as of `enroll` …}, ms until a run expires|-1}, or {'RESTORE', life}
-- Cost: about five commands per crawl.
--- include: clock
--- include: ledger
--- include: registry

local grace_ms, dedupe_ms, most = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local NOWHERE = -1
local to_note = {}

local function due_in(index_key, at)
  return redis.call('ZRANGE', index_key, '-inf', int(at), 'BYSCORE', 'LIMIT', 0, most)
end

local function lapse(name, crawl, how)
  if not crawl.lapsed then
    crawl.lapsed, changed_crawls[name] = how, crawl
  end
  to_note[#to_note + 1] = note_of_lapsed(name, crawl, NOWHERE)
end

local function expire_all()
  for _, name in ipairs(due_in(K.expiring, math.floor(trusted(wall) / 1000))) do
    local crawl, fed_at = registered(name), tonumber(redis.call('ZSCORE', K.open, name) or 0)
    if crawl.is_open and (crawl.lapsed or fed_at <= now - grace_ms) then
      lapse(name, crawl, 'expired')
    end
  end
end

-- Forget a crawl that has nothing in any partition. Its next generation gets a number above all earlier ones.
local function drop(name, crawl)
  local floors = redis.call('HMGET', K.meta, 'generation_floor', 'run_floor')
  redis.call('HSET', K.meta, 'generation_floor', int(math.max(tonumber(floors[1] or 0), crawl.g + 1)),
    'run_floor', int(math.max(tonumber(floors[2] or 0), crawl.run)))
  redis.call('HDEL', K.registry, name)
  redis.call('UNLINK', K.home_profiles(name))
  redis.call('ZREM', K.forgetting, name)
end

local function forget_all()
  for _, name in ipairs(due_in(K.forgetting, now)) do
    local crawl = registered(name)
    if crawl.is_bare then
      drop(name, crawl)
    elseif crawl.is_published and not crawl.is_open then
      lapse(name, crawl, 'forgotten')
    end
  end
end

local is_ready = is_restored()
if is_ready and redis.call('HEXISTS', K.meta, 'moving') == 0 then
  if redis.call('HGET', K.meta, 'dedupe') ~= dedupe_ms then
    redis.call('HSET', K.meta, 'dedupe', dedupe_ms)
  end
  expire_all()
  forget_all()
  save_registry()
end
local next_at = redis.call('ZRANGE', K.expiring, 0, 0, 'WITHSCORES')[2]
local _, trusted_from = trusted(wall)
local next_ms = next_at and math.max(next_at * 1000 - wall, trusted_from - now, 0) or -1
save_clock()
return cmsgpack.pack(is_ready and { 'OK', life, to_note, next_ms } or { 'RESTORE', life })
