#!lua flags=allow-oom
-- divide: note that the frontier of this name has several partitions, which have prefixes of their own.
-- Guarantee: all processes are answered the same layout; never beside a frontier of one partition.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 layout of the keys, noted if none is.
-- Returns: the layout of what is there now.
-- Cost: three commands.
--- include: keys
if redis.call('EXISTS', K.meta) == 1 then
  return redis.call('HGET', K.meta, 'layout')
end
redis.call('SET', K.layout, ARGV[1], 'NX')
return redis.call('GET', K.layout)
