#!lua flags=allow-oom
-- recover: in a new life of a home, before all else: what Kafka knows to have been told, and the home may have
--   forgotten.
-- Guarantee: safe to repeat. A stop takes effect that ends a generation which the home believes to be the
--   present one, and an ending of a run that it believes to be open, or has not heard of; nothing else
--   changes. In any other life than the one that is named nothing is done.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {life, fates, is this the last of several calls}; in the order of the log, without what an
--   earlier life of the home has written after a later one had begun
--   fate    {'stop' or 'end', name, generation, run, {place, offset …}, timestamp_ms}: of a stop, the generation
--           that it begins, the run that it ends (0: none) and its own place; of an end, up to which offsets it
--           covers seeds
-- Returns: packed {life, was it this one}
-- Cost: about two commands a crawl, and one a partition where something ends.
--- include: clock
--- include: ledger
--- include: crawls
--- include: registry

local named_life, fates, is_last = unpack(cmsgpack.unpack(ARGV[1]))

local function cover_all(name, crawl, covered)
  for i = 1, #covered, 2 do
    cover(crawl, covered[i], covered[i + 1])
  end
  changed_crawls[name] = crawl
end

local effects = {}

function effects.stop(name, generation, run, covered, timestamp)
  local crawl = registered(name)
  if generation > crawl.g then
    if run > crawl.run then
      crawl.run, crawl.is_open = run, true  -- Its ending is owed, unless the log tells of that as well.
    end
    end_generations(name, crawl, generation)
    cover_all(name, crawl, covered)
    note_stop(name, covered[1], timestamp, covered[2] - 1)
  end
end

effects['end'] = function(name, generation, run, covered)
  local crawl = registered(name)
  if generation == crawl.g and (run > crawl.run or run == crawl.run and crawl.is_open) then
    close(name, crawl)
    crawl.is_published, crawl.owed = true, nil
    tell_all(name, crawl, generation, 'ended')
  end
  if generation < crawl.g then
    redis.call('HDEL', K.closing, name .. ' ' .. int(generation))  -- The world knows.
  end
  crawl.run = math.max(crawl.run, run)
  cover_all(name, crawl, covered)
end

local is_same = named_life == life
for _, fate in ipairs(is_same and fates or {}) do
  effects[fate[1]](unpack(fate, 2))
end
save_registry()
if is_same and is_last then
  redis.call('HSET', K.meta, 'restored', int(life))
end
save_clock()
return cmsgpack.pack({ life, is_same })
