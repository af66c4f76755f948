#!lua flags=allow-oom
-- reposition: a person has decided where a Kafka partition goes on whose log lost records that had
--   taken effect. What was noted about offsets of the old log means nothing for the new one.
-- Guarantee: compare and set; where the position is another one than was shown, nothing is done.
--   kafka-monitors are not to run: they remember what they have read.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {topic uuid, kafka partition, position as it was shown, offset to go on from}
-- Returns: 1 if the position was that, else 0.
-- Cost: O(notes about records of the partitions that are judged with care, or stopped ahead): few.

local P = KEYS[1]

local topic, kafka_partition, shown, offset = unpack(cmsgpack.unpack(ARGV[1]))
local place = string.format('%s:%d', topic, kafka_partition)
if tonumber(redis.call('HGET', P .. 'positions', place) or -1) ~= shown then
  return 0
end

-- Forget the fields of a hash that begin with the place.
local function forget(key, separator)
  local begin = place .. separator
  for _, field in ipairs(redis.call('HKEYS', P .. key)) do
    if string.sub(field, 1, #begin) == begin then
      redis.call('HDEL', P .. key, field)
    end
  end
end

for _, key in ipairs({ 'epochs', 'refused', 'again', 'attempts', 'behind' }) do
  redis.call('HDEL', P .. key, place)
end
redis.call('HDEL', P .. 'lost', '#' .. place)
forget('attempts', ':')
forget('ahead', ' ')
redis.call('HSET', P .. 'positions', place, string.format('%d', offset))
return 1
