#!lua flags=allow-oom
-- fired: record the outcome of a due schedule, after Kafka has its seeds.
-- Guarantee: recorded once, in spite of repeated and concurrent calls: only while the schedule has the same
--   position as when it was read. A client's change since then is kept, and the schedule is checked again.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {field, version, last, fire|0, new last, due|-1, was it asked for,
--   {at, crawl, seeds, late_s, number of the last seed} or {}, {at, reason, count, detail …}}
-- Returns: 1, or 0 if another call was first, or the schedule is gone.
-- Cost: about ten commands.
--- include: keys
local int = function(number)
  return string.format('%d', number)
end
local time = redis.call('TIME')
local wall = time[1] * 1000 + math.floor(time[2] / 1000)
--- include: schedules

local field, version, last, fire, new_last, due, is_asked, fired, skips = unpack(cmsgpack.unpack(ARGV[1]))
local key = K.schedule(field)
local x = redis.call('HMGET', key, 'definition', 'version', 'last', 'fire', 'crawl')
if not x[1] or tonumber(x[3] or 0) ~= last or is_asked and tonumber(x[4] or 0) ~= fire then
  return 0
end

local crawl = fired[2] or x[5] or ''
redis.call('HSET', key, 'last', int(new_last))
for i = 1, #skips, 4 do
  local at, reason, count, detail = unpack(skips, i, i + 3)
  skip_firing(field, { at = at, reason = reason, count = count, detail = detail }, new_last, crawl)
end
if fired[1] then
  redis.call('HINCRBY', key, 'fired', 1)
  redis.call('HSET', key, 'crawl', crawl, 'fired_at', int(fired[1]), 'fed', time[1],
    'awaits', int(fired[1]) .. ' ' .. int(fired[5]))
  redis.call('HDEL', key, 'skips')
  redis.call('SREM', K.skipping, field)
  owe_schedule('schedule_fired', field, { at = fired[1], crawl = crawl, seeds = fired[3], late = fired[4],
    last = new_last })
end
if is_asked or tonumber(x[4] or -1) == new_last then
  redis.call('HDEL', key, 'fire')
  x[4] = nil
end
redis.call('HDEL', key, 'by', 'by_until', 'begun', 'stops', 'content', 'edition')
local next_look = due < 0 and '+inf' or int(due)
if tonumber(x[2]) ~= version or x[4] then
  next_look = '0'
end
redis.call('ZADD', K.schedules, next_look, field)
return 1
