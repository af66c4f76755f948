#!lua flags=allow-oom
-- begin: a firing is about to be fed, and how, so that whoever has to go on with it does so alike.
-- Guarantee: nothing is noted where somebody else has brought the firing to its end.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 field of the schedule, 2 last time that was dealt with when it was read, 3 time of the firing,
--   4 '1' if it stops the crawl of the last one.
-- Returns: 1, or 0 where the schedule has moved on.
-- Cost: two commands.
--- include: keys
local key = K.schedule(ARGV[1])
local x = redis.call('HMGET', key, 'definition', 'last')
if not x[1] or (x[2] or '0') ~= ARGV[2] then
  return 0
end
redis.call('HSET', key, 'begun', ARGV[3])
if ARGV[4] == '1' then
  redis.call('HSET', key, 'stops', '1')
end
return 1
