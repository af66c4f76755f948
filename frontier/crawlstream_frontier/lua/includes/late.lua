-- How far a partition has read one Kafka partition of requests: its position, and a lower one for the seeds of
--   each home that was away when they came by, until they have been read, too.
-- Guarantee: no position goes back, and none passes seeds that were not brought along.
-- `late` HASH "<place> <home>" -> offset.
-- Needs: clock. Cost: two commands a call, one more for each home that is late.

-- What is known of a place: `position`, which is -1 where none is. Seeds of homes that are `absent` are not among
-- the records at hand; `homes` is how many there are.
local function reading_of(place, absent, homes)
  local reading = { position = tonumber(redis.call('HGET', K.positions, place) or -1) }
  local is_absent, late_of = {}, {}
  for _, home in ipairs(absent) do
    is_absent[home] = true
  end
  local late = redis.call('HGETALL', K.late)
  for i = 1, #late, 2 do
    local at, home = string.match(late[i], '^(.*) (%d+)$')
    if at == place then
      late_of[tonumber(home)] = tonumber(late[i + 1])
    end
  end

  -- How far the seeds of a home have been read.
  function reading.of(home)
    return late_of[home] or reading.position
  end

  -- How far the seeds have been read of all homes whose seeds are at hand.
  function reading.lowest()
    local lowest
    for home = 0, homes - 1 do
      if not is_absent[home] then
        lowest = math.min(lowest or reading.of(home), reading.of(home))
      end
    end
    return lowest or reading.position
  end

  -- The records up to an offset have been read, but for those of homes that are absent.
  function reading.move(offset)
    local position = math.max(reading.position, offset)
    for home = 0, homes - 1 do
      local before = reading.of(home)
      local after = is_absent[home] and before or math.max(before, offset)
      if after < position and after ~= late_of[home] then
        redis.call('HSET', K.late, place .. ' ' .. home, int(after))
      elseif after == position and late_of[home] then
        redis.call('HDEL', K.late, place .. ' ' .. home)
      end
    end
    redis.call('HSET', K.positions, place, int(position))
  end

  return reading
end
