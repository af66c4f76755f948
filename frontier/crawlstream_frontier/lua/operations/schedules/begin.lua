#!lua flags=allow-oom
-- begin: note that a firing is about to be fed, and how, so that another redis-monitor can continue it alike.
-- Guarantee: nothing is noted if another redis-monitor has completed the firing. Seeds other
--   than those that the same firing began with are another edition of it: their occasions are new.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 field of the schedule, 2 last time that was handled when it was read, 3 time of the firing,
--   4 '1' if it stops the crawl of the last one, 5 digest of its seeds, 6 latest edition.
-- Returns: the edition, 0 for the first seeds; -1 if the schedule has moved on.
-- Cost: two commands.
--- include: keys
local key = K.schedule(ARGV[1])
local x = redis.call('HMGET', key, 'definition', 'last', 'begun', 'content', 'edition')
if not x[1] or (x[2] or '0') ~= ARGV[2] then
  return -1
end
local edition = 0
if x[3] == ARGV[3] then
  local is_other = x[4] ~= ARGV[5]
  edition = math.min(tonumber(x[5] or 0) + (is_other and 1 or 0), tonumber(ARGV[6]))
end
redis.call('HSET', key, 'begun', ARGV[3], 'content', ARGV[5], 'edition', string.format('%d', edition))
if ARGV[4] == '1' then
  redis.call('HSET', key, 'stops', '1')
end
return edition
