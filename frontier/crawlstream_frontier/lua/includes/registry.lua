-- The registry at the coordinator of a crawl: its present generation, and the run that is open.
-- Guarantee: every change makes a new version, (life of the coordinator, number), larger than all before, even
--   if the coordinator goes back: its epoch is another one then. In a new epoch of the coordinator nothing is reported
--   or changed before `recover` has restored the reports of earlier ones.
-- `reg` HASH name -> packed {g, run, is_open, number, is_published, `owed`, over {place -> offset}, seeds {place ->
--   offset}, first {place -> {ms, offset}}, latest {place -> ms}, passed {place -> {from, behind …}}, paused, until_s,
--   shift, top, started, expires, budget, budgets, remember, occasion, ending, lapsed, forget_at, is_bare, is_unsaid,
--   is_new}. is_published: Kafka has the ending of the run before; `owed`: the run whose ending it lacks. over: seeds
--   below belong to runs that are over; seeds: behind the last enrolled seed; first, latest: of the open run's seeds;
--   passed: repetitions among them. g: generation; a stop ends it, and so does the coordinator's clock: `lapsed`
--   (expired, forgotten) marks a generation that is about to end by the clock; nothing enters meanwhile. started: wall
--   ms at which the open run began. expires, budgets, remember: {value, place in time of its record}, as of `told` in
--   a frontier of one partition. ending: how the latest run ended. is_bare: its generation has had no run. is_unsaid:
--   Kafka does not have its numbers yet. is_new: it has not begun, but its numbers are known from Kafka.
-- `tell` SET "<name> <generation> <life> <number> <partition> <what>": changes to deliver to partitions; what: ended
--   or expired, or changed, after which they request the label. `closing` HASH "<name> <generation>" -> packed {how,
--   run, request, started, occasion, budget, purged {partition -> pages}, fields {field -> sum}, drained}: the
--   partitions' answers about a stopped or expired run; drained: number of partitions without a page of it in flight.
--   `budgeted` SET of names whose open runs have budgets. `open` ZSET name -> frontier ms of the last seed of its
--   open run. `expiring` ZSET name -> epoch s at which its open run expires. `forgetting` ZSET name -> frontier ms at
--   which a crawl without a run forgets its pages, and is then forgotten itself.
-- Needs: clock, ledger. Cost: four commands per crawl and call, and one per partition if something ends.
local REMEMBER_BARE_MS, DEDUPE_MS = 3600 * 1000, 600 * 1000
local registry_cache, changed_crawls = {}, {}

local function is_restored()
  return redis.call('HGET', K.meta, 'restored') == int(life)
end

-- Create a crawl that may have been forgotten: it gets unused numbers of runs and generations.
local function new_crawl()
  local floors = redis.call('HMGET', K.meta, 'generation_floor', 'run_floor')
  return { g = tonumber(floors[1] or 0), run = tonumber(floors[2] or 0), is_open = false, number = 0,
    is_published = true, over = {}, seeds = {}, is_new = true }
end

-- Return the registry's record of a crawl; for an unknown crawl, the state before its first seed.
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
    if crawl.budgets then
      redis.call('SADD', K.budgeted, name)
    end
  end
  changed_crawls = {}
end

-- Return the number of partitions of the frontier.
local function amount_of_partitions()
  return tonumber(string.match(redis.call('HGET', K.meta, 'layout') or '', '/(%d+)$') or 1)
end

-- Return true if all partitions have reported how many waiting pages of an ended generation they had.
local function is_answered(closing)
  local answered = 0
  for _ in pairs(closing.purged) do
    answered = answered + 1
  end
  return answered == amount_of_partitions()
end

-- Notify every partition about the state of a generation as of the present version.
local function tell_all(name, crawl, generation, what)
  local news = name .. ' ' .. int(generation) .. ' ' .. int(life) .. ' ' .. int(crawl.number) .. ' '
  for partition = 0, amount_of_partitions() - 1 do
    redis.call('SADD', K.tell, news .. int(partition) .. ' ' .. what)
  end
  redis.call(PUBLISH, K.wake_homes, '1')
end

-- Note that seeds below an offset of a place belong to an ended run.
local function cover(crawl, place, offset)
  crawl.over[place] = math.max(crawl.over[place] or 0, offset)
end

-- Close the open run. Pauses and shifts end with it, and its repetitions are over, too.
local function close(name, crawl)
  for place, passed in pairs(crawl.passed or {}) do
    cover(crawl, place, passed[#passed])
  end
  crawl.is_open, crawl.paused, crawl.until_s, crawl.shift, crawl.top = false, nil, nil, nil, nil
  if crawl.budgets then
    redis.call('SREM', K.budgeted, name)
    crawl.budgets = nil
  end
  crawl.expires, crawl.passed, crawl.first, crawl.latest, crawl.started, crawl.budget = nil, nil, nil, nil, nil, nil
  local remember_ms = crawl.remember and crawl.remember[1] * 1000
  crawl.forget_at = now + (remember_ms or tonumber(redis.call('HGET', K.meta, 'dedupe') or DEDUPE_MS))
  new_version(name, crawl)
end

-- End the generations before this one, with all enrolled seeds. `how`: stopped, expired or
-- forgotten. A client's `request` is answered when all partitions have reported their numbers of waiting pages.
local function end_generations(name, crawl, generation, how, request)
  if crawl.is_open then
    crawl.ending = how
    redis.call('HSET', K.closing, name .. ' ' .. int(crawl.g), cmsgpack.pack({ how = how, run = crawl.run,
      request = request, started = crawl.started, occasion = crawl.occasion, budget = crawl.budget, purged = {},
      fields = {}, drained = 0 }))
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

-- Return the note that Kafka needs before a generation ends: as `to note` of `enroll`. It covers seeds up to `covered`.
local function note_of(name, crawl, offset, how, covered)
  return { offset, name, crawl.g + 1, how, crawl.is_open and crawl.run or 0, covered }
end

-- Return the note for an end by the coordinator's clock: nothing is enrolled meanwhile, so that it covers all seeds.
local function note_of_lapsed(name, crawl, offset)
  local covered = {}
  for place, behind in pairs(crawl.seeds) do
    covered[#covered + 1], covered[#covered + 2] = place, behind
  end
  return note_of(name, crawl, offset, crawl.lapsed, covered)
end
