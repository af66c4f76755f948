#!lua flags=allow-oom
-- found: let there be a frontier, or one partition of it, unless there is. No other operation makes one.
-- Guarantee: also in a full Redis: what drains it must be able to start. Where a frontier of several
--   partitions has its layout, there is none of one partition; where one was moved away, none is made. One of
--   several that was lost begins as after a restart: nobody knows what its domains were asked for lately.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 layout of the keys, noted if none is, 2 1 if it takes the place of one that was lost, else 0.
-- Returns: the layout of what is there now.
-- Cost: four commands, six where there was none.
--- include: keys
local moved = redis.call('HGET', K.moved, 'moving')
if moved then
  return redis.error_reply('MOVEDFRONTIER ' .. moved)
end
local divided = redis.call('GET', K.layout)
if divided then
  return divided
end
local is_new = redis.call('HSETNX', K.meta, 'layout', ARGV[1]) == 1
if is_new and ARGV[2] == '1' then
  local time = redis.call('TIME')
  local wall = string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000))
  -- Without a `run_id`, which the clock takes for a restart, into a life after the one that was lost.
  redis.call('HSET', K.meta, 'clock', wall, 'wall', wall, 'turn', '0', 'life', wall, 'restart', wall)
end
return redis.call('HGET', K.meta, 'layout')
