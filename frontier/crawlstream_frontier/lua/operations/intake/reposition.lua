#!lua flags=allow-oom
-- reposition: set the offset from which a Kafka partition continues, as an operator decided after its log
--   lost records that had taken effect. Notes about offsets of the old log are deleted.
-- Guarantee: compare and set: a no-op if the position has changed since it was shown.
--   kafka-monitors must be stopped: they remember the records that they have read.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {topic uuid, kafka partition, position as it was shown, offset to continue from}
-- Returns: 1 if the position was the shown one, else 0.
-- Cost: O(notes about offsets of the partition: repeated attempts, and stops done ahead), which are few.

--- include: keys

local topic, kafka_partition, shown, offset = unpack(cmsgpack.unpack(ARGV[1]))
local place = string.format('%s:%d', topic, kafka_partition)
if tonumber(redis.call('HGET', K.positions, place) or -1) ~= shown then
  return 0
end

-- Delete the fields of a hash that begin with the place.
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
