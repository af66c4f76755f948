-- Seeds that take effect a second time: they were written after a stop, but read before it.
-- Guarantee: when a stop ends a run, the run's seeds that came through other Kafka partitions than the
--   stop and are younger enter the next run, regardless of their number and of when they were
--   read: kafka-monitor reads their records again, and only these take effect.
-- `again` HASH place -> packed list of {name, time of the stop, from, upto}: in these offsets.
-- Needs: clock, crawls. Cost: nothing without such seeds but one HGET per call of `intake`; a stop reads
--   the ledger of its crawl.
local NAME, AFTER, FROM, UPTO = 1, 2, 3, 4
local again_cache = {}

local function again_at(at)
  if not again_cache[at] then
    local packed = redis.call('HGET', K.again, at)
    again_cache[at] = packed and cmsgpack.unpack(packed) or {}
  end
  return again_cache[at]
end

-- Keep the entries of a place for which `stays` returns true, as it has changed them.
local function keep_again(at, stays)
  local kept, before = {}, #again_at(at)
  for _, one in ipairs(again_at(at)) do
    if stays(one) then
      kept[#kept + 1] = one
    end
  end
  again_cache[at] = kept
  if #kept > 0 then
    redis.call('HSET', K.again, at, cmsgpack.pack(kept))
  elseif before > 0 then
    redis.call('HDEL', K.again, at)
  end
end

-- Return true if a seed below the position takes effect again.
local function enters_again(at, name, offset, timestamp)
  for _, one in ipairs(again_at(at)) do
    if one[NAME] == name and one[AFTER] < timestamp and one[FROM] <= offset and offset < one[UPTO] then
      return true
    end
  end
  return false
end

-- Note that the records from `start` up to `reached` were read again.
local function note_read_again(at, start, reached)
  if #again_at(at) == 0 then
    return
  end
  keep_again(at, function(one)
    if start <= one[FROM] and one[FROM] < reached then
      one[FROM] = reached
    end
    return one[FROM] < one[UPTO]
  end)
end

-- Schedule seeds to be read again: after a stop of a run with these first seeds, those that other partitions of its
-- topic brought later than the stop. `reached` is the key of the positions of these partitions.
local function owe_again(seeds, name, topic, place, timestamp, reached)
  for at, first in pairs(seeds) do
    if at ~= place and first.offset and (first.latest or NEVER) > timestamp
      and string.find(at, topic .. ':', 1, true) == 1 then
      local upto = tonumber(redis.call('HGET', reached, at))
      table.insert(again_at(at), { name, timestamp, first.offset, upto })
      keep_again(at, function(one) return one[FROM] < one[UPTO] end)
    end
  end
end

-- Drop seeds before a stop in its own partition: it covers all of them, whenever they were written.
local function forget_again(name, place)
  if #again_at(place) > 0 then
    keep_again(place, function(one) return one[NAME] ~= name end)
  end
end
