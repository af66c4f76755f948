#!lua flags=allow-oom
-- found: create a frontier, or one partition of it, unless it exists. No other operation creates one.
-- Guarantee: works in a full Redis: the processes that empty it must be able to start. Creates no frontier of one
--   partition where one of several has its layout, and none where one was moved away. A lost
--   partition of several begins as after a restart: the latest requests to its domains are unknown.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 layout of the keys, noted if there is none, 2 1 if it replaces a lost one, else 0.
-- Returns: the present layout.
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
  -- The clock takes the missing `run_id` for a restart, and begins the epoch after the lost one.
  redis.call('HSET', K.meta, 'clock', wall, 'wall', wall, 'turn', '0', 'life', wall, 'restart', wall)
end
return redis.call('HGET', K.meta, 'layout')
