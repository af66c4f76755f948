#!lua flags=allow-oom
-- reposition: a person has decided where a Kafka partition goes on whose log lost records that had
--   taken effect. What was noted about offsets of the old log means nothing for the new one.
-- Guarantee: compare and set; where the position is another one than was shown, nothing is done.
--   kafka-monitors are not to run: they remember what they have read.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {topic uuid, kafka partition, position as it was shown, offset to go on from}
-- Returns: 1 if the position was that, else 0.
-- Cost: O(notes about records of the partitions that are judged with care, or stopped ahead): few.

--- include: keys

local topic, kafka_partition, shown, offset = unpack(cmsgpack.unpack(ARGV[1]))
local place = string.format('%s:%d', topic, kafka_partition)
if tonumber(redis.call('HGET', K.positions, place) or -1) ~= shown then
  return 0
end

-- Forget the fields of a hash that begin with the place.
local function forget(key, separator)
  local begin = place .. separator
  for _, field in ipairs(redis.call('HKEYS', key)) do
    if string.sub(field, 1, #begin) == begin then
      redis.call('HDEL', key, field)
    end
  end
end

for _, key in ipairs({ K.epochs, K.refused, K.again, K.attempts, K.behind }) do
  redis.call('HDEL', key, place)
end
redis.call('HDEL', K.lost, '#' .. place)
forget(K.attempts, ':')
forget(K.ahead, ' ')
redis.call('HSET', K.positions, place, string.format('%d', offset))
return 1
