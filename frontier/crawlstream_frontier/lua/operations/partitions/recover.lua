#!lua flags=allow-oom
-- recover: restore from Kafka, first in a new epoch of a coordinator, the records of runs that the coordinator may have
--   forgotten.
-- Guarantee: safe to repeat. A crawl that the coordinator does not know begins again with its former numbers.
--   The end of a generation (by a stop or by time) takes effect if the coordinator has that generation as the
--   present one; an ending of a run takes effect if the coordinator has the run as open, or does not know it;
--   nothing else changes. A run that ended so, but is not published yet, is reported by `told`, also if the coordinator
--   does not know it. No-op unless the given epoch is the current one.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {life, fates, dedupe_ms, is this the last of several calls}; fates in the order of the log, without
--   records that an earlier epoch of the coordinator wrote after a later one had begun; dedupe_ms: as of `overdue`
--   fate    {kind, name, generation, run, {place, offset …}, timestamp_ms, remember_s|-1}; kind: stopped, expired or
--           forgotten, with the generation that begins, the run that ends or 0, and the offsets up to which it
--           covers seeds (a stop: in its own place); end, with the run whose ending is published, and for how long
--           the crawl remembers its pages; or begun, with the first generation and run of a crawl
-- Returns: packed {life, was it the given one}
-- Cost: about two commands per crawl, and one per partition if something ends.
--- include: clock
--- include: ledger
--- include: crawls
--- include: registry

local named_life, fates, dedupe_ms, is_last = unpack(cmsgpack.unpack(ARGV[1]))

local function cover_all(name, crawl, covered)
  for i = 1, #covered, 2 do
    cover(crawl, covered[i], covered[i + 1])
  end
  changed_crawls[name] = crawl
end

-- Register a crawl that had begun: its seeds are read again.
local function begin_again(name, generation, run)
  local crawl = registered(name)
  if crawl.is_new or generation > crawl.g and not crawl.is_open then
    crawl.g, crawl.run, crawl.is_new, crawl.is_bare = generation, run - 1, true, true
    crawl.forget_at, changed_crawls[name] = now + REMEMBER_BARE_MS, crawl
  end
end

-- End a generation again.
local function end_again(how, name, generation, run, covered)
  local crawl = registered(name)
  if generation <= crawl.g then
    return false
  elseif run > crawl.run then
    crawl.g, crawl.run, crawl.is_open = generation - 1, run, true
  elseif crawl.is_new then
    crawl.g = generation - 1
  end
  end_generations(name, crawl, generation, how)
  cover_all(name, crawl, covered)
  return true
end

local function end_run_of(name, generation, run, covered, remember)
  local crawl = registered(name)
  if generation > crawl.g and not crawl.is_open then
    crawl.g = generation
  end
  if generation == crawl.g and run >= crawl.run and remember >= 0 then
    crawl.remember = { remember, { 0, 0, 0 } }  -- Any seed's setting is later.
  end
  if generation == crawl.g and (run > crawl.run or run == crawl.run and crawl.is_open) then
    close(name, crawl)
    crawl.is_published, crawl.owed, crawl.ending, crawl.is_bare = true, nil, 'finished', nil
    tell_all(name, crawl, generation, 'ended')
  end
  if generation < crawl.g then
    redis.call('HDEL', K.closing, name .. ' ' .. int(generation))  -- Its ending is published.
  end
  crawl.run, crawl.is_new = math.max(crawl.run, run), nil
  crawl.forget_at = crawl.forget_at or now + REMEMBER_BARE_MS
  cover_all(name, crawl, covered)
end

local function take_effect(fate)
  local kind, name, generation, run, covered, timestamp, remember = unpack(fate)
  if kind == 'begun' then
    begin_again(name, generation, run)
  elseif kind == 'end' then
    end_run_of(name, generation, run, covered, remember)
  elseif end_again(kind, name, generation, run, covered) and kind == 'stopped' then
    note_stop(name, covered[1], timestamp, covered[2] - 1)
  end
end

local is_same = named_life == life
if is_same then
  redis.call('HSET', K.meta, 'dedupe', int(dedupe_ms))
end
for _, fate in ipairs(is_same and fates or {}) do
  take_effect(fate)
end
save_registry()
if is_same and is_last then
  redis.call('HSET', K.meta, 'restored', int(life))
end
save_clock()
return cmsgpack.pack({ life, is_same })
