#!lua
-- restore: tell a new Redis where a Kafka partition goes on, and which runs an old one was amid.
-- Guarantee: what is known already stays; safe to repeat. After a loss every domain is treated as if
--   its allowance had been used up now, for nobody knows what was sent before.
-- KEYS: 1 prefix of the partition.
-- ARGV: 1 packed {topic uuid, kafka partition, offset, until|-1, run_floor, {name, run …}, ttl_ms}
--   until: the offset below which the records are the past of a Redis that was lost; -1: none was.
-- Returns: the position that holds from now on.
-- Cost: O(runs).
--- include: clock

local topic, kafka_partition, offset, until_offset, floor, runs, ttl = unpack(cmsgpack.unpack(ARGV[1]))
local place = topic .. ':' .. int(kafka_partition)
if redis.call('HSETNX', P .. 'positions', place, int(offset)) == 1 and until_offset >= 0 then
  local known = tonumber(redis.call('HGET', P .. 'm', 'run_floor') or 0)
  redis.call('HSET', P .. 'm', 'run_floor', int(math.max(known, floor)), 'restart', int(now))
  redis.call('HSET', P .. 'lost', '#' .. place, int(until_offset))
  for i = 1, #runs, 2 do
    redis.call('HSETNX', P .. 'lost', runs[i], int(runs[i + 1]))
  end
  redis.call('PEXPIRE', P .. 'lost', int(ttl))
  save_clock()
end
return tonumber(redis.call('HGET', P .. 'positions', place))
