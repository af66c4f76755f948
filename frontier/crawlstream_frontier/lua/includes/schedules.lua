-- Schedules: their definitions, and the progress of each.
-- Guarantee: commands for a schedule take effect in record order, with the position; its version
--   grows with each change, also over its removal, so that Kafka and an older copy of Redis can be compared.
-- `schedules` ZSET <appid>:<schedule> by the time of redis-monitor's next check, epoch seconds (0: now, inf:
--   never again). `schedule:<field>` HASH: definition, version, paused, since, last, fire, begun, stops,
--   content, edition, crawl, fired_at, fed, awaits, fired, skipped, skips, skipped_at, reason, detail,
--   repeated, by, by_until; a removed one has only version.
-- `skipping` SET of schedules that were skipped at least ALARM_SKIPS times in a row.
-- Needs: wall (epoch ms), int.
local REMEMBER_REMOVED_MS, ALARM_SKIPS = 24 * 3600 * 1000, 3

local function owe_schedule(kind, field, details)
  details.kind, details.schedule, details.time = kind, field, math.floor(wall / 1000)
  redis.call('XADD', K.outbox, '*', 'record', cmsgpack.pack(details))
end

local function is_schedule(field)
  return redis.call('HEXISTS', K.schedule(field), 'definition') == 1
end

-- Publish the state of a schedule to Kafka, so that a new Redis can restore it.
local function owe_definition(field)
  local x = redis.call('HMGET', K.schedule(field), 'definition', 'version', 'paused', 'since')
  owe_schedule('schedule_set', field, { definition = x[1], version = tonumber(x[2]),
    paused = x[3] and true or false, since = tonumber(x[4]) })
end

local function note_version(field)
  local key = K.schedule(field)
  local before = tonumber(redis.call('HGET', key, 'version') or 0)
  redis.call('HSET', key, 'version', int(math.max(wall, before + 1)))
end

-- Count a repeated record of a firing; `field` may name a schedule that does not exist.
local function count_repeated(field)
  if is_schedule(field) then
    redis.call('HINCRBY', K.schedule(field), 'repeated', 1)
  end
end

local change_schedule = {}

-- Create or replace a schedule, unless there are `most` already; a paused one stays paused.
function change_schedule.set(field, definition, most)
  local key, is_known = K.schedule(field), is_schedule(field)
  if not is_known and redis.call('ZCARD', K.schedules) >= most then
    return 'too_many'
  end
  note_version(field)
  redis.call('HSET', key, 'definition', definition, 'since', int(math.floor(wall / 1000)))
  redis.call('PERSIST', key)
  redis.call('ZADD', K.schedules, 0, field)
  owe_definition(field)
  return is_known and 'replaced' or 'set'
end

function change_schedule.remove(field)
  local key = K.schedule(field)
  note_version(field)
  local version = redis.call('HGET', key, 'version')
  redis.call('DEL', key)
  redis.call('HSET', key, 'version', version)
  redis.call('PEXPIRE', key, int(REMEMBER_REMOVED_MS))
  redis.call('ZREM', K.schedules, field)
  redis.call('SREM', K.skipping, field)
  owe_schedule('schedule_removed', field, {})
  return 'removed'
end

function change_schedule.pause(field)
  note_version(field)
  redis.call('HSET', K.schedule(field), 'paused', '1')
  owe_definition(field)
  return 'paused'
end

function change_schedule.resume(field)
  note_version(field)
  redis.call('HDEL', K.schedule(field), 'paused')
  owe_definition(field)
  return 'resumed'
end

-- Let it fire once, now, outside its own times. A pending firing takes this one's place.
function change_schedule.fire(field)
  local key = K.schedule(field)
  local last, seconds = tonumber(redis.call('HGET', key, 'last') or 0), math.floor(wall / 1000)
  -- A time far ahead comes from a clock that was wrong.
  redis.call('HSETNX', key, 'fire', int(last > seconds + 300 and seconds or math.max(seconds, last + 1)))
  redis.call('ZADD', K.schedules, 0, field)
  return 'fires'
end

function change_schedule.show()
  return 'known'
end

-- Apply a client's command to a schedule; return the outcome.
local function steer_schedule(action, field, definition, most)
  if action ~= 'set' and not is_schedule(field) then
    return 'unknown'
  end
  return change_schedule[action](field, definition, most)
end
