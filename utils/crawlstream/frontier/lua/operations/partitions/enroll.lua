#!lua flags=allow-oom
-- enroll: the home of crawls learns of consecutive records of one Kafka partition: seeds open their runs, or
--   keep them open, and are told to what they belong; a stop ends a generation.
-- Guarantee: each record takes effect once, in record order: records below the position change nothing, a gap
--   writes nothing. A seed below the position gets its stamp again, as it would be now: partitions may have
--   gone back. A stop takes effect under the generation that Kafka has of it, or is answered, to be noted
--   there first; what follows it waits. Its client is answered by `told`.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {topic uuid, kafka partition, start, next, profiles {{hash, bytes} …}, records}
--   seed    {'seed', offset, timestamp_ms, name, profile index, priority}
--   command {'command', offset, timestamp_ms, action, request, name of the crawl|'', the priority of
--            `reprioritize` or the end of `pause` in epoch s|0, generation that was noted|-1}
-- Returns: packed {'OK', life, {offset, generation|-1, number, run …}, {} or {offset, name, generation} of a
--   stop to be noted}: life and number are the version, -1 is of a run that is over; {'GAP', position}: -1
--   where none is known; or {'RESTORE', life}
-- Cost: about two commands a crawl, three where a run opens.
--- include: clock
--- include: ledger
--- include: crawls
--- include: registry

local topic, kafka_partition, start, next_offset, profiles, records = unpack(cmsgpack.unpack(ARGV[1]))
local KIND, OFFSET = 1, 2
local place = topic .. ':' .. int(kafka_partition)
local position = tonumber(redis.call('HGET', K.enrolled, place) or -1)
if not is_restored() then
  save_clock()
  return cmsgpack.pack({ 'RESTORE', life })
elseif position < 0 or start > position then
  return cmsgpack.pack({ 'GAP', position })
end

local stamps = {}

local function stamp(offset, generation, number, run)
  for _, value in ipairs({ offset, generation, number, run }) do
    stamps[#stamps + 1] = value
  end
end

-- Where each Kafka partition is, this one at a record: a run that begins there begins with it.
local function positions_at(offset)
  local reached = redis.call('HGETALL', K.enrolled)
  for i = 1, #reached, 2 do
    if reached[i] == place then
      reached[i + 1] = int(offset)
    end
  end
  return reached
end

local function enter(name, crawl, offset, priority)
  if not crawl.is_open then
    crawl.run, crawl.is_open = crawl.run + 1, true
    owe('crawl_started', nil, { name = name, run = crawl.run, positions = positions_at(offset) })
  end
  new_version(name, crawl)
  crawl.seeds[place] = math.max(crawl.seeds[place] or 0, offset + 1)
  crawl.top = math.max(crawl.top or priority, priority)
  if redis.call('ZADD', K.open, int(now), name) == 1 then
    redis.call(PUBLISH, K.wake_homes, '1')
  end
end

local function seed(record)
  local offset, timestamp, name, profile, priority = unpack(record, OFFSET)
  local crawl, hash = registered(name), profiles[profile][1]
  -- Also of a run that is over: what it has left behind may wait for the next one.
  redis.call('HSETNX', K.home_profiles(name), hash, profiles[profile][2])
  if offset < (crawl.over[place] or 0) or was_stopped_after(name, place, timestamp, offset) then
    return stamp(offset, -1, 0, 0)
  end
  if offset >= position then
    enter(name, crawl, offset, priority)
  end
  stamp(offset, crawl.g, crawl.number, crawl.run)
end

-- Stop a crawl; answers the generation that is to be noted first.
local function stop(name, crawl, timestamp, offset, noted, request)
  if offset < (crawl.over[place] or 0) then
    return nil
  elseif not crawl.is_new then
    if noted ~= crawl.g + 1 then
      return crawl.g + 1
    end
    end_generations(name, crawl, noted, request)
    cover(crawl, place, offset + 1)
  end
  note_stop(name, place, timestamp, offset)
end

-- Pause, resume or reprioritize the run that is open; all partitions are to ask.
local function steer(name, crawl, action, aim)
  if action == 'pause' then
    crawl.paused, crawl.until_s = true, aim
  elseif action == 'resume' then
    crawl.paused, crawl.until_s = nil, nil
  else
    crawl.shift = aim - (crawl.top or aim)
  end
  new_version(name, crawl)
  tell_all(name, crawl, crawl.g, 'changed')
end

local STEERS = { pause = true, resume = true, reprioritize = true }

-- A command whose turn has come; answers as `stop`.
local function command(record)
  local offset, timestamp, action, request, name, aim, noted = unpack(record, OFFSET)
  local crawl, run = name ~= '' and registered(name), nil
  if crawl and crawl.is_open and (action == 'stop' or STEERS[action]) then
    run = crawl.run
  end
  if crawl and action == 'stop' then
    local generation = stop(name, crawl, timestamp, offset, noted, request)
    if generation then
      return { offset, name, generation }
    elseif run then
      return nil  -- It is answered when all partitions have been told.
    end
  elseif run and STEERS[action] then
    steer(name, crawl, action, aim)
  end
  local fields = { 'name', action, 'request', request }
  if run then
    fields[#fields + 1], fields[#fields + 2] = 'run', int(run)
  end
  redis.call('XADD', K.actions, '*', unpack(fields))
end

local reached, to_note = next_offset, {}
for _, record in ipairs(records) do
  if record[KIND] == 'seed' then
    seed(record)
  elseif record[OFFSET] >= position then
    to_note = command(record) or {}
    if #to_note > 0 then
      reached = record[OFFSET]
      break
    end
  end
end
save_registry()
redis.call('HSET', K.enrolled, place, int(math.max(position, reached)))
save_clock()
return cmsgpack.pack({ 'OK', life, stamps, to_note })
