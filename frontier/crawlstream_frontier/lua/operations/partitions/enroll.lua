#!lua flags=allow-oom
-- enroll: register consecutive records of one Kafka partition in the coordinator of their crawls: a seed opens its run,
--   or keeps it open, and is stamped with generation and run; a stop ends a generation.
-- Guarantee: each record takes effect once, in record order: records below the position change nothing, a gap
--   writes nothing. A seed below the position gets its current stamp again: partitions may have
--   gone back. Some records end a generation: a stop; a seed that comes after the time of the run before it, or after
--   the time for which the crawl remembers its pages. Such a record takes effect under the generation that Kafka has
--   for it in this epoch; without one it is answered, to be written to Kafka first, and the records after it wait.
--   `told` answers a client's stop. A record that names an occasion takes effect if it is the first to name it.
--   A crawl that is new to the coordinator is answered as begun, until Kafka has it in this epoch: its stamps must not
--   be used before.
--   Seeds that were written after a stop in another Kafka partition, but read before it, enter the run after it: they
--   are read again, see `again`, until `reread` reports that partitions have them.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {topic uuid, kafka partition, start, next, profiles {{hash, bytes} …}, records, begun}
--   seed    {'seed', offset, timestamp_ms, name, profile index, priority, expires_s, remember_s|-1, occasion|'', its
--            number, uuid|'', noted [, budgets]}
--   command {'command', offset, timestamp_ms, action, request, name of the crawl|'', the priority of
--            `reprioritize` or the end of `pause` in epoch s|0, occasion|'', its number, noted}
--   schedule as of `intake`
--   noted   {generation, life} that Kafka has for the record, or {}
--   begun   {life in which crawls were answered as begun, {name, generation …}} or {}: Kafka has them
-- Returns: packed {'OK', life, {offset, generation|-1, number, run, does it enter once more …}, {} or to note,
--   {offset …} of seeds that a stop removes, {schedule, repetitions …}, {name, generation, run …} of begun
--   crawls}: life and number are the version, -1 is for an ended run, or a repetition; {'GAP', position}:
--   -1 if none is known; or {'RESTORE', life}
--   to note {offset, name, generation that begins, how: stopped, expired or forgotten, run that ends|0, {place,
--           offset …} up to which it covers seeds}
-- Cost: about four commands a crawl, five where a run opens.
--- include: clock
--- include: ledger
--- include: crawls
--- include: again
--- include: registry
--- include: run_end
--- include: schedules
--- include: occasions

local topic, kafka_partition, start, next_offset, profiles, records, begun = unpack(cmsgpack.unpack(ARGV[1]))
local KIND, OFFSET, BUDGETS = 1, 2, 13
local place = topic .. ':' .. int(kafka_partition)
local position = tonumber(redis.call('HGET', K.enrolled, place) or -1)
if not is_restored() then
  save_clock()
  return cmsgpack.pack({ 'RESTORE', life })
elseif position < 0 or start > position then
  return cmsgpack.pack({ 'GAP', position })
end

local stamps, stopped, repeated_of = {}, {}, {}
local unsaid = {}  -- Crawls that have begun, without a record in Kafka yet.
local retimed = {}  -- Crawls whose runs end at another time, to be reported to partitions.

for i = 2, begun[1] == life and #begun or 0, 2 do
  local crawl = registered(begun[i])
  if crawl.g == begun[i + 1] then
    crawl.is_unsaid, changed_crawls[begun[i]] = nil, crawl
  end
end

local function stamp(offset, generation, number, run, is_again)
  for _, value in ipairs({ offset, generation, number, run, is_again or false }) do
    stamps[#stamps + 1] = value
  end
end

-- Positions of all Kafka partitions, this one at a record: a run that begins there begins with it.
local function positions_at(offset)
  local reached = redis.call('HGETALL', K.enrolled)
  for i = 1, #reached, 2 do
    if reached[i] == place then
      reached[i + 1] = int(offset)
    end
  end
  return reached
end

-- Return true if Kafka has the end of the present generation, as it was answered in this epoch.
local function is_noted(crawl, noted)
  return noted[1] == crawl.g + 1 and noted[2] == life
end

-- Return true if a record is a repetition of its occasion, and count it.
local function is_repeated(occasion, n)
  if occasion == '' or not is_repetition(occasion, n) then
    return false
  end
  local field = string.match(occasion, '^(.*):%d+$')
  repeated_of[field] = (repeated_of[field] or 0) + 1
  return true
end

local seed
do
  local function time_of(occasion)
    return tonumber(string.match(occasion or '', ':(%d+)$') or 0)
  end

  -- Return true if a record is later than the one that set a value, by {timestamp, partition, offset}.
  local function is_latest(said, place_in_time)
    for i, at in ipairs(said and said[2] or {}) do
      if at ~= place_in_time[i] then
        return place_in_time[i] > at
      end
    end
    return true
  end

  -- Record the settings of crawl and run that a seed carries.
  local function hear(crawl, was_open, record)
    local offset, timestamp, name, _, priority, expires, remember, occasion = unpack(record, OFFSET)
    local place_in_time = { timestamp, kafka_partition, offset }
    local max_seconds = record[BUDGETS] and record[BUDGETS][1] or 0
    crawl.top = math.max(crawl.top or priority, priority)
    if (expires ~= 0 or max_seconds > 0) and is_latest(crawl.expires, place_in_time) then
      local before, at = crawl.expires and crawl.expires[1], nil
      at, crawl.budget = end_of(expires, max_seconds, crawl.started or wall)
      crawl.expires = { at, place_in_time }
      if was_open and before ~= at then
        retimed[name] = crawl
      end
    end
    if record[BUDGETS] and is_latest(crawl.budgets, place_in_time) then
      crawl.budgets = { record[BUDGETS], place_in_time }
    end
    if remember >= 0 and is_latest(crawl.remember, place_in_time) then
      crawl.remember = { remember, place_in_time }
    end
    if time_of(occasion) > time_of(crawl.occasion) then
      crawl.occasion = occasion
    end
  end

  local function enter(name, crawl, record)
    local offset, occasion, was_open = record[OFFSET], record[9], crawl.is_open
    if not was_open then
      crawl.run, crawl.is_open, crawl.is_bare = crawl.run + 1, true, nil
      crawl.occasion, crawl.ending, crawl.started, crawl.is_unsaid = nil, nil, wall, crawl.is_new or crawl.is_unsaid
      local reached = positions_at(offset)
      -- The crawl was forgotten: its earlier runs are over.
      for i = 1, crawl.is_new and #reached or 0, 2 do
        cover(crawl, reached[i], tonumber(reached[i + 1]))
      end
      owe('crawl_started', nil, { name = name, run = crawl.run, positions = reached,
        occasion = occasion ~= '' and occasion or nil })
    end
    new_version(name, crawl)
    crawl.seeds[place] = math.max(crawl.seeds[place] or 0, offset + 1)
    crawl.first, crawl.latest = crawl.first or {}, crawl.latest or {}
    crawl.first[place] = crawl.first[place] or { record[3], offset }
    crawl.latest[place] = math.max(crawl.latest[place] or record[3], record[3])
    hear(crawl, was_open, record)
    if redis.call('ZADD', K.open, int(now), name) == 1 then
      redis.call(PUBLISH, K.wake_homes, '1')
    end
  end

  -- Return true if a seed comes after the time of the open run, which it would prolong, or after the time for which
  -- the crawl remembers its pages, if it would begin the next run; stored once it is found.
  local function lapse_before(name, crawl, expires)
    local how = nil
    if crawl.is_open and crawl.expires and has_come(crawl.expires[1])
      and (expires == 0 or expires * 1000 > wall) then
      how = 'expired'
    elseif not (crawl.is_open or crawl.is_bare) and crawl.is_published
      and crawl.forget_at and crawl.forget_at <= now then
      how = 'forgotten'
    end
    if how and not crawl.lapsed then
      crawl.lapsed = how
      changed_crawls[name] = crawl
    end
    return crawl.lapsed
  end

  -- Answer a repetition: partitions skip it, also when they request it again.
  local function pass(name, crawl, offset)
    if crawl.is_new then
      return
    end
    changed_crawls[name] = crawl
    if not crawl.is_open then
      return cover(crawl, place, offset + 1)
    end
    crawl.passed = crawl.passed or {}
    local passed = crawl.passed[place] or {}
    crawl.passed[place] = passed
    if #passed == 0 or (crawl.seeds[place] or 0) > passed[#passed - 1] then
      passed[#passed + 1] = offset
      passed[#passed + 1] = offset + 1
    else
      passed[#passed] = offset + 1
    end
  end

  local function was_passed(crawl, offset)
    local passed = crawl.passed and crawl.passed[place] or {}
    for i = 1, #passed, 2 do
      if passed[i] <= offset and offset < passed[i + 1] then
        return true
      end
    end
    return false
  end

  -- Enroll a seed in its turn, or count it as a repetition; return the note that Kafka needs first, and is it one.
  local function seed_in_turn(name, crawl, record)
    local offset, expires, occasion, n, uuid, noted = record[OFFSET], record[7], unpack(record, 9)
    if is_repeated(occasion, n) then
      if uuid ~= '' and not crawl.is_new then
        owe('accepted', nil, { name = name, run = crawl.run, uuid = uuid })
      end
      pass(name, crawl, offset)
      return nil, true
    elseif lapse_before(name, crawl, expires) then
      if not is_noted(crawl, noted) then
        return note_of_lapsed(name, crawl, offset)
      end
      end_generations(name, crawl, crawl.g + 1, crawl.lapsed)
    end
    enter(name, crawl, record)
    if occasion ~= '' then
      note_occasion(occasion, n)
    end
  end

  function seed(record)
    local offset, timestamp, name, profile = unpack(record, OFFSET)
    local crawl, hash = registered(name), profiles[profile][1]
    local is_its_turn, is_again = offset >= position, enters_again(place, name, offset, timestamp)
    local is_forgotten = crawl.is_bare and offset < (crawl.over[place] or 0) and not is_again
    if (is_its_turn or not crawl.is_new) and not is_forgotten then
      -- Also for an ended run: its remaining entries may wait for the next one.
      redis.call('HSETNX', K.home_profiles(name), hash, profiles[profile][2])
    end
    if offset < (crawl.over[place] or 0) and not is_again then
      if is_its_turn and record[9] ~= '' then
        note_occasion(record[9], record[10])
      end
      return stamp(offset, -1, 0, 0)
    elseif was_stopped_after(name, place, timestamp, offset) then
      stopped[#stopped + 1] = offset
      return stamp(offset, -1, 0, 0)
    end
    local to_note, is_passed = nil, was_passed(crawl, offset)
    if is_again then
      enter(name, crawl, record)
    elseif is_its_turn then
      to_note, is_passed = seed_in_turn(name, crawl, record)
    end
    if to_note then
      return to_note
    elseif crawl.is_new or is_passed then
      return stamp(offset, -1, 0, 0)
    end
    unsaid[name] = crawl.is_unsaid and crawl or nil
    stamp(offset, crawl.g, crawl.number, crawl.run, is_again)
  end
end

local command
do
  -- Return the seeds of the open run by Kafka partition, in the form of `first_seeds`.
  local function seeds_of(crawl)
    local seeds = {}
    for at, first in pairs(crawl.first or {}) do
      seeds[at] = { time = first[1], offset = first[2], latest = crawl.latest[at] }
    end
    return seeds
  end

  -- Stop a crawl; return the note that Kafka needs first.
  local function stop(name, crawl, record)
    local offset, timestamp, _, request = unpack(record, OFFSET)
    if offset < (crawl.over[place] or 0) then
      return nil
    elseif not crawl.is_new and (not crawl.is_open or is_meant_by_stop(seeds_of(crawl), place, timestamp)) then
      if not is_noted(crawl, record[10]) then
        return note_of(name, crawl, offset, 'stopped', { place, offset + 1 })
      end
      owe_again(seeds_of(crawl), name, topic, place, timestamp, K.enrolled)
      end_generations(name, crawl, crawl.g + 1, 'stopped', request)
      cover(crawl, place, offset + 1)
    end
    forget_again(name, place)
    note_stop(name, place, timestamp, offset)
  end

  -- Return true if a stop, which the coordinator knows from Kafka since an earlier epoch, still needs its reply.
  local function is_closing(name, crawl, request)
    local field = name .. ' ' .. int(crawl.g - 1)
    local packed = redis.call('HGET', K.closing, field)
    local closing = packed and cmsgpack.unpack(packed) or {}
    if packed and not closing.request and not is_answered(closing) then
      closing.request = request
      redis.call('HSET', K.closing, field, cmsgpack.pack(closing))
    end
    return closing.request == request
  end

  -- Pause, resume or reprioritize the open run; all partitions then request its label.
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

  -- Apply a command in its turn; return the note that Kafka needs first.
  function command(record)
    local _, _, action, request, name, aim, occasion, n = unpack(record, OFFSET)
    local crawl, run = name ~= '' and not is_repeated(occasion, n) and registered(name), nil
    if crawl and crawl.is_open and (action == 'stop' or STEERS[action]) then
      run = crawl.run
    end
    local to_note = crawl and action == 'stop' and stop(name, crawl, record)
    if to_note then
      return to_note
    elseif crawl and occasion ~= '' then
      note_occasion(occasion, n)
    end
    if crawl and action == 'stop' and (run or is_closing(name, crawl, request)) then
      return nil  -- It is answered when all partitions have confirmed.
    elseif run and STEERS[action] then
      steer(name, crawl, action, aim)
    end
    if request == '' then
      return nil  -- No client waits for an answer any more.
    end
    local fields = { 'name', action, 'request', request }
    if run then
      fields[#fields + 1], fields[#fields + 2] = 'run', int(run)
    end
    redis.call('XADD', K.actions, '*', unpack(fields))
  end
end

-- Apply a client's command for a schedule; redis-monitor answers it.
local function schedule(record)
  local _, _, action, request, field, definition, most = unpack(record, OFFSET)
  local outcome = steer_schedule(action, field, definition, most)
  redis.call('XADD', K.actions, '*', 'name', 'schedule', 'request', request, 'outcome', outcome)
end

local effects, reached, to_note = { seed = seed, command = command, schedule = schedule }, next_offset, {}
for _, record in ipairs(records) do
  if record[KIND] == 'seed' or record[OFFSET] >= position then
    to_note = effects[record[KIND]](record) or {}
    if #to_note > 0 then
      reached = record[OFFSET]
      break
    end
  end
end
for name, crawl in pairs(retimed) do
  tell_all(name, crawl, crawl.g, 'changed')
end
save_registry()
save_occasions()
redis.call('HSET', K.enrolled, place, int(math.max(position, reached)))
local repetitions = {}
for field, amount in pairs(repeated_of) do
  repetitions[#repetitions + 1], repetitions[#repetitions + 2] = field, amount
end
local new = {}
for name, crawl in pairs(unsaid) do
  for _, value in ipairs({ name, crawl.g, crawl.run }) do
    new[#new + 1] = value
  end
end
save_clock()
return cmsgpack.pack({ 'OK', life, stamps, to_note, stopped, repetitions, new })
