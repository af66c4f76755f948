#!lua flags=allow-oom
-- reinstate: restore the schedules in a Redis that is new, or was restored from an old copy.
-- Guarantee: safe to repeat. Nothing goes back: a later version in Redis stays, and a schedule
--   that was removed since does not return.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 the schedules, packed {{field, version, definition, paused, since} …}, 2 the progress of
--   each, packed {{field, last, crawl} …}, 3 removed ones, packed {{field, epoch ms} …}
-- Returns: number of schedules of which something was missing.
-- Cost: about five commands per schedule.
--- include: keys
local int = function(number)
  return string.format('%d', number)
end

-- Schedules with missing data, by field, and their number.
local forgotten, amount = {}, 0
local function note_forgotten(field)
  amount = amount + (forgotten[field] and 0 or 1)
  forgotten[field] = true
end

for _, told in ipairs(cmsgpack.unpack(ARGV[1])) do
  local field, version, definition, is_paused, since = unpack(told)
  local key = K.schedule(field)
  if version > tonumber(redis.call('HGET', key, 'version') or -1) then
    redis.call('HSET', key, 'version', int(version), 'definition', definition, 'since', int(since))
    redis.call('PERSIST', key)
    if is_paused then
      redis.call('HSET', key, 'paused', '1')
    else
      redis.call('HDEL', key, 'paused')
    end
    redis.call('ZADD', K.schedules, 0, field)
    note_forgotten(field)
  end
end
for _, told in ipairs(cmsgpack.unpack(ARGV[2])) do
  local field, last, crawl = unpack(told)
  local key = K.schedule(field)
  if redis.call('HEXISTS', key, 'definition') == 1
    and last > tonumber(redis.call('HGET', key, 'last') or -1) then
    redis.call('HSET', key, 'last', int(last), 'crawl', crawl)
    redis.call('ZADD', K.schedules, 0, field)
    note_forgotten(field)
  end
end
for _, told in ipairs(cmsgpack.unpack(ARGV[3])) do
  local field, at = unpack(told)
  local key = K.schedule(field)
  local version = tonumber(redis.call('HGET', key, 'version') or -1)
  if version >= 0 and version < at then
    redis.call('DEL', key)
    redis.call('ZREM', K.schedules, field)
    redis.call('SREM', K.skipping, field)
    note_forgotten(field)
  end
end
return amount
