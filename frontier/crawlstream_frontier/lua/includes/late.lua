-- Progress of a partition in one Kafka partition of requests: its position, and a lower one for the seeds of
--   each coordinator that was unavailable when they were read, until they have been read, too.
-- Guarantee: no position goes back, and none passes seeds that were left out.
-- `late` HASH "<place> <coordinator>" -> offset.
-- Needs: clock. Cost: two commands per call, one more for each late coordinator.

-- Return the progress in a place: `position` is -1 if there is none. Seeds of `absent` coordinators are not among
-- the present records; `coordinators` is the number of coordinators.
local function reading_of(place, absent, coordinators)
  local reading = { position = tonumber(redis.call('HGET', K.positions, place) or -1) }
  local is_absent, late_of = {}, {}
  for _, coordinator in ipairs(absent) do
    is_absent[coordinator] = true
  end
  local late = redis.call('HGETALL', K.late)
  for i = 1, #late, 2 do
    local at, coordinator = string.match(late[i], '^(.*) (%d+)$')
    if at == place then
      late_of[tonumber(coordinator)] = tonumber(late[i + 1])
    end
  end

  -- Return the position for the seeds of a coordinator.
  function reading.of(coordinator)
    return late_of[coordinator] or reading.position
  end

  -- Return the lowest position for the seeds of all coordinators that are present.
  function reading.lowest()
    local lowest
    for coordinator = 0, coordinators - 1 do
      if not is_absent[coordinator] then
        lowest = math.min(lowest or reading.of(coordinator), reading.of(coordinator))
      end
    end
    return lowest or reading.position
  end

  -- Move the positions to an offset, except those of absent coordinators.
  function reading.move(offset)
    local position = math.max(reading.position, offset)
    for coordinator = 0, coordinators - 1 do
      local before = reading.of(coordinator)
      local after = is_absent[coordinator] and before or math.max(before, offset)
      if after < position and after ~= late_of[coordinator] then
        redis.call('HSET', K.late, place .. ' ' .. coordinator, int(after))
      elseif after == position and late_of[coordinator] then
        redis.call('HDEL', K.late, place .. ' ' .. coordinator)
      end
    end
    redis.call('HSET', K.positions, place, int(position))
  end

  return reading
end
