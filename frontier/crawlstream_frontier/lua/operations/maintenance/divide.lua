#!lua flags=allow-oom
-- divide: note that the frontier under this prefix has several partitions, which have prefixes of their own.
-- Guarantee: all processes get the same layout; never next to a frontier of one partition, nor where one
--   was moved away.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 layout of the keys, noted if there is none.
-- Returns: the present layout.
-- Cost: four commands.
--- include: keys
local moved = redis.call('HGET', K.moved, 'moving')
if moved then
  return redis.error_reply('MOVEDFRONTIER ' .. moved)
end
if redis.call('EXISTS', K.meta) == 1 then
  return redis.call('HGET', K.meta, 'layout')
end
redis.call('SET', K.layout, ARGV[1], 'NX')
return redis.call('GET', K.layout)
