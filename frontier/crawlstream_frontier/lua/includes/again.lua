-- Seeds that take effect once more: a stop was read late, and they were written after it.
-- Guarantee: of a run that a stop ends, the seeds that came through other Kafka partitions than the
--   stop and are younger enter the run after it, however many there are and however long ago they were
--   read: kafka-monitor reads their records again, and only these take effect.
-- `again` HASH place -> packed list of {name, time of the stop, from, upto}: in these offsets.
-- Needs: clock, crawls. Cost: nothing without such seeds but one HGET a call of `intake`; a stop reads
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

-- Keep the entries of a place for which `stays` is true, as it has left them.
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

-- Whether a seed below the position takes effect again.
local function enters_again(at, name, offset, timestamp)
  for _, one in ipairs(again_at(at)) do
    if one[NAME] == name and one[AFTER] < timestamp and one[FROM] <= offset and offset < one[UPTO] then
      return true
    end
  end
  return false
end

-- The records from `start` up to `reached` were read again.
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

-- A stop ends a run whose first seeds these are: what other partitions of its topic brought after it comes again.
-- `reached` is the key of how far each has been read.
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

-- A stop means all seeds of its crawl before it in its own partition, whenever they were written.
local function forget_again(name, place)
  if #again_at(place) > 0 then
    keep_again(place, function(one) return one[NAME] ~= name end)
  end
end
