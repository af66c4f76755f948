#!lua flags=allow-oom
-- pass: note that recall has passed all links that were spilled before a given moment.
-- Guarantee: noted only if every Kafka partition of the topic has been recalled up to its end offset
--   read after that moment, and Redis was not restarted since. Spills that were registered by then and
--   have not come back are lost from Kafka: `watch` finds them.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {life, frontier ms of the moment, topic uuid, {kafka partition, end …}}
-- Returns: 1 if it is noted, 0 if recall is not that far yet, -1 if a restart made it unknowable.
-- Cost: O(partitions).
--- include: clock

local then_life, moment, topic, ends = unpack(cmsgpack.unpack(ARGV[1]))
local answer = then_life == life and 1 or -1
for i = 1, #ends, 2 do
  local position = redis.call('HGET', K.overflow, topic .. ':' .. int(ends[i]))
  if answer == 1 and tonumber(position or -1) < ends[i + 1] then
    answer = 0
  end
end
if answer == 1 then
  redis.call('HSET', K.meta, 'passed', int(moment))
end
save_clock()
return answer
