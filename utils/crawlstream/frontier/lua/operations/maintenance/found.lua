#!lua flags=allow-oom
-- found: let there be a frontier, unless there is one. No other operation makes one.
-- Guarantee: also in a full Redis: what drains it must be able to start.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 layout of the keys, noted if none is.
-- Returns: the layout of what is there now.
-- Cost: two commands.
--- include: keys
redis.call('HSETNX', K.meta, 'layout', ARGV[1])
return redis.call('HGET', K.meta, 'layout')
