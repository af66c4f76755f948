-- Refused seeds, kept until kafka-monitor has published the refusal.
-- Guarantee: a refusal is returned to every call that begins at or before it, until a call begins behind it:
--   then it is published, unless another kafka-monitor is about to publish it.
-- `refused` HASH place -> {offset, reason …}, packed.
-- Needs: clock. Cost: one command per call, two if something is refused.
local refused, others, was_refused = {}, {}, nil

local function refuse(offset, reason)
  refused[#refused + 1] = offset
  refused[#refused + 1] = reason
end

-- Load the refusals that may not be published yet, including those of earlier calls with the same records.
-- Refusals that another kafka-monitor is about to publish are in `ranges` {from, to …} of offsets.
local function load_refused(place, start, ranges)
  local function is_told_by_others(offset)
    for i = 1, #(ranges or {}), 2 do
      if ranges[i] <= offset and offset < ranges[i + 1] then
        return true
      end
    end
    return false
  end

  was_refused = redis.call('HGET', K.refused, place)
  local untold = was_refused and cmsgpack.unpack(was_refused) or {}
  for i = 1, #untold, 2 do
    if is_told_by_others(untold[i]) then
      others[#others + 1], others[#others + 2] = untold[i], untold[i + 1]
    elseif untold[i] >= start then
      refuse(untold[i], untold[i + 1])
    end
  end
end

local function save_refused(place)
  local all = { unpack(others) }
  for _, value in ipairs(refused) do
    all[#all + 1] = value
  end
  local packed = #all > 0 and cmsgpack.pack(all)
  if packed and packed ~= was_refused then
    redis.call('HSET', K.refused, place, packed)
  elseif was_refused and not packed then
    redis.call('HDEL', K.refused, place)
  end
end

-- Return the refusals before an offset, for the answer.
local function refused_before(offset)
  local told = {}
  for i = 1, #refused, 2 do
    if refused[i] < offset then
      told[#told + 1], told[#told + 2] = refused[i], refused[i + 1]
    end
  end
  return told
end
