-- The registry at the home of a crawl: which run of which generation is open.
-- Guarantee: every change makes another version, (life of the home, number), that is larger than all before,
--   also if the home goes back: its life is another one then. Nothing is told or changed in a life of the
--   home before `recover` has said what had been told in earlier ones.
-- `reg` HASH name -> packed {g, run, is_open, number, is_published, owed, over {place -> offset}, seeds {place ->
--   offset}, paused, until_s, shift, top}. is_published: Kafka has the ending of the run before; owed: the run
--   whose ending it has not. over: seeds below belong to runs that are over; seeds: behind the last that was
--   enrolled. g: generation, which a stop ends.
-- `tell` SET "<name> <generation> <life> <number> <partition> <what>": what partitions are to hear; what: ended,
--   or changed, which has them ask. `closing` HASH "<name> <generation>" -> packed {run, request, purged
--   {partition -> pages}, fields {field -> sum}, drained}: what they have answered of a run that was stopped; drained:
--   how many have no page of it in flight any more. `open` ZSET name -> frontier ms of the last seed of its open run.
-- Needs: clock, ledger. Cost: two commands a crawl and call, and one a partition where something ends.
local registry_cache, changed_crawls = {}, {}

local function is_restored()
  return redis.call('HGET', K.meta, 'restored') == int(life)
end

-- What the registry has of a crawl; of one that it does not know, what is true before its first seed.
local function registered(name)
  local crawl = registry_cache[name]
  if not crawl then
    local packed = redis.call('HGET', K.registry, name)
    crawl = packed and cmsgpack.unpack(packed) or { g = 0, run = 0, is_open = false, number = 0,
      is_published = true, over = {}, seeds = {}, is_new = true }
    registry_cache[name] = crawl
  end
  return crawl
end

local function new_version(name, crawl)
  crawl.number, crawl.is_new = crawl.number + 1, nil
  changed_crawls[name] = crawl
end

local function save_registry()
  for name, crawl in pairs(changed_crawls) do
    redis.call('HSET', K.registry, name, cmsgpack.pack(crawl))
    if crawl.is_open then
      redis.call('ZADD', K.open, 'NX', int(now), name)
    else
      redis.call('ZREM', K.open, name)
    end
  end
  changed_crawls = {}
end

-- How many partitions the frontier has.
local function amount_of_partitions()
  return tonumber(string.match(redis.call('HGET', K.meta, 'layout') or '', '/(%d+)$') or 1)
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

-- No run is open any more. What a person set ends with it.
local function close(name, crawl)
  crawl.is_open, crawl.paused, crawl.until_s, crawl.shift, crawl.top = false, nil, nil, nil, nil
  new_version(name, crawl)
end

-- The generations before this one are over, and with them all that was enrolled. `request` of a client is
-- answered when all partitions have told how many pages waited there.
local function end_generations(name, crawl, generation, request)
  if crawl.is_open then
    redis.call('HSET', K.closing, name .. ' ' .. int(crawl.g),
      cmsgpack.pack({ run = crawl.run, request = request, purged = {}, fields = {}, drained = 0 }))
  end
  for place, offset in pairs(crawl.seeds) do
    cover(crawl, place, offset)
  end
  close(name, crawl)
  crawl.is_published, crawl.owed = true, nil
  for ended = crawl.g, generation - 1 do
    tell_all(name, crawl, ended, 'ended')
    redis.call('HDEL', K.credits, name .. ' ' .. int(ended))
  end
  crawl.g = generation
end
