-- The registry at the home of a crawl: which run of which generation is open.
-- Guarantee: every change makes another version, (life of the home, number), that is larger than all before,
--   also if the home goes back: its life is another one then. Nothing is told or changed in a life of the
--   home before `recover` has said what had been told in earlier ones.
-- `reg` HASH name -> packed {g, run, is_open, number, is_published, owed, over {place -> offset}, seeds {place ->
--   offset}, first {place -> {ms, offset}}, latest {place -> ms}, passed {place -> {from, behind …}}, paused,
--   until_s, shift, top, started, expires, remember, occasion, ending, lapsed, forget_at, is_bare, is_unsaid,
--   is_new}. is_published: Kafka has the ending of the run before; owed: the run whose ending it has not. over: seeds
--   below belong to runs that are over; seeds: behind the last that was enrolled; first, latest: of the open run's
--   seeds; passed: repetitions among them. g: generation, which a stop ends, and so does the home's clock: `lapsed`
--   says that it is to end so (expired, forgotten), and stays until it has; nothing enters meanwhile. started: wall
--   ms at which the open run began. expires, remember: {value, place in time of its record}, as of `told` in a
--   frontier of one partition. ending: how the latest run ended. is_bare: its generation has had no run. is_unsaid:
--   Kafka does not have its numbers yet. is_new: it has not begun, though from Kafka its numbers are known.
-- `tell` SET "<name> <generation> <life> <number> <partition> <what>": what partitions are to hear; what: ended or
--   expired, or changed, which has them ask. `closing` HASH "<name> <generation>" -> packed {how, run, request,
--   started, occasion, purged {partition -> pages}, fields {field -> sum}, drained}: what they have answered of a run
--   that was stopped, or has expired; drained: how many have no page of it in flight any more. `open` ZSET name ->
--   frontier ms of the last seed of its open run. `expiring` ZSET name -> epoch s at which its open run expires.
--   `forgetting` ZSET name -> frontier ms at which a crawl without a run forgets what it has seen, and is then
--   forgotten itself.
-- Needs: clock, ledger. Cost: four commands a crawl and call, and one a partition where something ends.
local REMEMBER_BARE_MS, DEDUPE_MS = 3600 * 1000, 600 * 1000
local registry_cache, changed_crawls = {}, {}

local function is_restored()
  return redis.call('HGET', K.meta, 'restored') == int(life)
end

-- A crawl that may have been forgotten: its runs and generations are none of those.
local function new_crawl()
  local floors = redis.call('HMGET', K.meta, 'generation_floor', 'run_floor')
  return { g = tonumber(floors[1] or 0), run = tonumber(floors[2] or 0), is_open = false, number = 0,
    is_published = true, over = {}, seeds = {}, is_new = true }
end

-- What the registry has of a crawl; of one that it does not know, what is true before its first seed.
local function registered(name)
  local crawl = registry_cache[name]
  if not crawl then
    local packed = redis.call('HGET', K.registry, name)
    crawl = packed and cmsgpack.unpack(packed) or new_crawl()
    registry_cache[name] = crawl
  end
  return crawl
end

local function new_version(name, crawl)
  crawl.number, crawl.is_new = crawl.number + 1, nil
  changed_crawls[name] = crawl
end

local function index(key, name, at)
  if at then
    redis.call('ZADD', key, int(at), name)
  else
    redis.call('ZREM', key, name)
  end
end

local function save_registry()
  for name, crawl in pairs(changed_crawls) do
    redis.call('HSET', K.registry, name, cmsgpack.pack(crawl))
    if crawl.is_open then
      redis.call('ZADD', K.open, 'NX', int(now), name)
    else
      redis.call('ZREM', K.open, name)
    end
    index(K.expiring, name, crawl.is_open and crawl.expires and crawl.expires[1])
    index(K.forgetting, name, not crawl.is_open and crawl.forget_at)
  end
  changed_crawls = {}
end

-- How many partitions the frontier has.
local function amount_of_partitions()
  return tonumber(string.match(redis.call('HGET', K.meta, 'layout') or '', '/(%d+)$') or 1)
end

-- Whether all partitions have said how many pages a generation that has ended had waiting there.
local function is_answered(closing)
  local answered = 0
  for _ in pairs(closing.purged) do
    answered = answered + 1
  end
  return answered == amount_of_partitions()
end

-- Let every partition hear of a generation what is true from the present version on.
local function tell_all(name, crawl, generation, what)
  local news = name .. ' ' .. int(generation) .. ' ' .. int(life) .. ' ' .. int(crawl.number) .. ' '
  for partition = 0, amount_of_partitions() - 1 do
    redis.call('SADD', K.tell, news .. int(partition) .. ' ' .. what)
  end
  redis.call(PUBLISH, K.wake_homes, '1')
end

-- Seeds below an offset of a place belong to what is over.
local function cover(crawl, place, offset)
  crawl.over[place] = math.max(crawl.over[place] or 0, offset)
end

-- No run is open any more. What a person set ends with it, and its repetitions are over, too.
local function close(name, crawl)
  for place, passed in pairs(crawl.passed or {}) do
    cover(crawl, place, passed[#passed])
  end
  crawl.is_open, crawl.paused, crawl.until_s, crawl.shift, crawl.top = false, nil, nil, nil, nil
  crawl.expires, crawl.passed, crawl.first, crawl.latest, crawl.started = nil, nil, nil, nil, nil
  local remember_ms = crawl.remember and crawl.remember[1] * 1000
  crawl.forget_at = now + (remember_ms or tonumber(redis.call('HGET', K.meta, 'dedupe') or DEDUPE_MS))
  new_version(name, crawl)
end

-- The generations before this one are over, and with them all that was enrolled. `how`: stopped, expired or
-- forgotten. `request` of a client is answered when all partitions have told how many pages waited there.
local function end_generations(name, crawl, generation, how, request)
  if crawl.is_open then
    crawl.ending = how
    redis.call('HSET', K.closing, name .. ' ' .. int(crawl.g), cmsgpack.pack({ how = how, run = crawl.run,
      request = request, started = crawl.started, occasion = crawl.occasion, purged = {}, fields = {}, drained = 0 }))
  end
  for place, offset in pairs(crawl.seeds) do
    cover(crawl, place, offset)
  end
  close(name, crawl)
  crawl.is_published, crawl.owed, crawl.lapsed, crawl.remember = true, nil, nil, nil
  for ended = crawl.g, generation - 1 do
    tell_all(name, crawl, ended, how == 'expired' and how or 'ended')
    redis.call('HDEL', K.credits, name .. ' ' .. int(ended))
  end
  crawl.g, crawl.is_bare, crawl.forget_at = generation, true, now + REMEMBER_BARE_MS
end

-- What Kafka is to remember before a generation ends: as `to note` of `enroll`. It covers seeds up to these offsets.
local function note_of(name, crawl, offset, how, covered)
  return { offset, name, crawl.g + 1, how, crawl.is_open and crawl.run or 0, covered }
end

-- The same of one that the home's clock ends: nothing is enrolled meanwhile, so that it covers all of it.
local function note_of_lapsed(name, crawl, offset)
  local covered = {}
  for place, behind in pairs(crawl.seeds) do
    covered[#covered + 1], covered[#covered + 2] = place, behind
  end
  return note_of(name, crawl, offset, crawl.lapsed, covered)
end
