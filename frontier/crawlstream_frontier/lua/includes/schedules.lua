-- Schedules: their definitions, and the progress of each.
-- Guarantee: commands for a schedule take effect in record order, with the position; its version
--   grows with each change, also over its removal, so that Kafka and an older copy of Redis can be compared.
-- `schedules` ZSET <appid>:<schedule> by the time of redis-monitor's next check, epoch seconds (0: now, inf:
--   never again). `schedule:<field>` HASH: definition, version, paused, since, last, fire, begun, stops,
--   content, edition, crawl, fired_at, fed, awaits, fired, skipped, skips, skipped_at, reason, detail,
--   repeated, by, by_until; a removed one has only version and last.
-- `skipping` SET of schedules that were skipped at least ALARM_SKIPS times in a row.
-- Needs: wall (epoch ms), int.
local REMEMBER_REMOVED_MS, ALARM_SKIPS, WRONG_CLOCK_S = 24 * 3600 * 1000, 3, 300
-- Reasons of skips that a client caused: they raise no alarm.
local INTENDED = { paused = true, pending = true }

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

-- Record and publish `count` firings that do not happen, of which `at` is the latest. `last` is the latest time that
-- was processed, `crawl` the last one that was fed.
local function skip_firing(field, skip, last, crawl)
  local key = K.schedule(field)
  redis.call('HINCRBY', key, 'skipped', int(skip.count))
  if not INTENDED[skip.reason] and redis.call('HINCRBY', key, 'skips', int(skip.count)) >= ALARM_SKIPS then
    redis.call('SADD', K.skipping, field)
  end
  redis.call('HSET', key, 'skipped_at', int(skip.at), 'reason', skip.reason, 'detail', skip.detail)
  owe_schedule('schedule_skipped', field, { at = skip.at, reason = skip.reason, count = skip.count,
    detail = skip.detail, last = last, crawl = crawl })
end

-- Return the current second, or the one after `latest`, so that no second names two firings. A `latest` far ahead
-- comes from a clock that was wrong.
local function second_after(latest)
  local seconds = math.floor(wall / 1000)
  return latest > seconds + WRONG_CLOCK_S and seconds or math.max(seconds, latest + 1)
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
  local x = redis.call('HMGET', key, 'version', 'last')
  redis.call('DEL', key)
  redis.call('HSET', key, 'version', x[1], 'last', x[2] or '0')
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

-- Let it fire once, now, outside its own times; skip that while a requested firing is pending.
function change_schedule.fire(field)
  local key = K.schedule(field)
  local x = redis.call('HMGET', key, 'last', 'fire', 'skipped_at', 'crawl')
  local last = tonumber(x[1] or 0)
  if x[2] then
    local at = second_after(tonumber(x[3] or 0))
    skip_firing(field, { at = at, reason = 'pending', count = 1, detail = '' }, last, x[4] or '')
    return 'pending'
  end
  redis.call('HSET', key, 'fire', int(second_after(last)))
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
