-- Progress of a partition in one Kafka partition of requests: its position, and a lower one for the seeds of
--   each home that was unavailable when they were read, until they have been read, too.
-- Guarantee: no position goes back, and none passes seeds that were left out.
-- `late` HASH "<place> <home>" -> offset.
-- Needs: clock. Cost: two commands per call, one more for each late home.

-- Return the progress in a place: `position` is -1 if there is none. Seeds of `absent` homes are not among
-- the present records; `homes` is the number of homes.
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

  -- Return the position for the seeds of a home.
  function reading.of(home)
    return late_of[home] or reading.position
  end

  -- Return the lowest position for the seeds of all homes that are present.
  function reading.lowest()
    local lowest
    for home = 0, homes - 1 do
      if not is_absent[home] then
        lowest = math.min(lowest or reading.of(home), reading.of(home))
      end
    end
    return lowest or reading.position
  end

  -- Move the positions to an offset, except those of absent homes.
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
