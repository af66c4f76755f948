#!lua flags=allow-oom
-- due: lend the due schedules to one redis-monitor.
-- Guarantee: no other redis-monitor gets them before `claim_ms` have passed, or `fired` has reported the
--   outcome. The claim only saves work: the effects of two happen once, see `occasions` and `fired`.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 name of the redis-monitor, 2 most schedules, 3 claim_ms.
-- Returns: packed {epoch seconds, is there more, schedules, those that are skipped again and again,
--   {field, {name, value …} …}}
-- Cost: two commands, and five per due schedule; one per schedule after the clock has gone back.
--- include: keys
local name, most, claim_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local wall = time[1] * 1000 + math.floor(time[2] / 1000)
-- Number of occasions per part, as in `occasions`.
local OCCASIONS_A_PART = 4096
local AHEAD_MS = 300000

-- Mark the seeds of the last firing as applied, once intake has applied the last of them.
local function look_for_seeds(field, key)
  local at, n = string.match(redis.call('HGET', key, 'awaits') or '', '^(%d+) (%d+)$')
  local part = at and string.format('%d', math.floor(n / OCCASIONS_A_PART))
  if at and redis.call('GETBIT', K.occasion(field .. ':' .. at, part), n % OCCASIONS_A_PART) == 1 then
    redis.call('HDEL', key, 'awaits')
  end
end

-- After the clock has gone back, due times lie in the future: check all schedules again.
local looked_at = tonumber(redis.call('HGET', K.meta, 'schedules_at') or 0)
if looked_at > wall + AHEAD_MS then
  for _, field in ipairs(redis.call('ZRANGE', K.schedules, 0, -1)) do
    redis.call('ZADD', K.schedules, 0, field)
  end
end
if redis.call('EXISTS', K.meta) == 1 then
  redis.call('HSET', K.meta, 'schedules_at', string.format('%d', wall))
end

local fields = redis.call('ZRANGE', K.schedules, '-inf', time[1], 'BYSCORE', 'LIMIT', 0, most)
local claimed = {}
for _, field in ipairs(fields) do
  local key = K.schedule(field)
  local by = redis.call('HMGET', key, 'by', 'by_until')
  -- A claim longer than any was made while the clock was ahead.
  if not by[1] or by[1] == name or tonumber(by[2]) <= wall or tonumber(by[2]) > wall + claim_ms then
    redis.call('HSET', key, 'by', name, 'by_until', string.format('%d', wall + claim_ms))
    look_for_seeds(field, key)
    claimed[#claimed + 1] = field
    claimed[#claimed + 1] = redis.call('HGETALL', key)
  end
end
return cmsgpack.pack({ tonumber(time[1]), #fields == most and #claimed > 0, redis.call('ZCARD', K.schedules),
  redis.call('SCARD', K.skipping), claimed })
