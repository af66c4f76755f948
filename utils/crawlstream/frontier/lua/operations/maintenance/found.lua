#!lua flags=allow-oom
-- found: let there be a frontier, or one partition of it, unless there is. No other operation makes one.
-- Guarantee: also in a full Redis: what drains it must be able to start. Where a frontier of several
--   partitions has its layout, there is none of one partition; where one was moved away, none is made.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 layout of the keys, noted if none is.
-- Returns: the layout of what is there now.
-- Cost: four commands.
--- include: keys
local moved = redis.call('HGET', K.moved, 'moving')
if moved then
  return redis.error_reply('MOVEDFRONTIER ' .. moved)
end
local divided = redis.call('GET', K.layout)
if divided then
  return divided
end
redis.call('HSETNX', K.meta, 'layout', ARGV[1])
return redis.call('HGET', K.meta, 'layout')
