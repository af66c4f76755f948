#!lua flags=allow-oom
-- intake: apply consecutive records of one Kafka partition, together with their applied offset.
-- Guarantee: each record takes effect once, in record order, in spite of repeated and concurrent calls:
--   records below the position are skipped (except those of `again`), a gap writes nothing. stop, pause,
--   resume and reprioritize take effect here, between the seeds before and after them. While Redis is full,
--   seeds wait, with all records after them. Stops are the exception: they take effect at once, and are
--   answered once; the seeds waiting before them are refused in their turn. Refusals are returned to every
--   call that begins at or before them, until a call begins behind them: then they have been published.
--   A seed or command that names an occasion takes effect if it is the first to name it.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {topic uuid, kafka partition, start, next, profiles {{hash, bytes} …}, records,
--   are they ahead, leader epoch|-1}; the epoch of the last record, or of one behind it. Records ahead
--   are stops from anywhere behind the position (start and next are 0): they take effect now if Redis
--   is full, else in their turn
--   seed    {'seed', offset, timestamp_ms, name, domain, priority, spider, fingerprint, body,
--            profile index, domain_cap|-1, crawl_cap|-1, expires_s, not_before_ms, uuid|'' [, site|''
--            [, remember_s|-1, occasion|'', its number [, budgets]]]}; site: set if its domain is split into sites;
--            uuid: see `note_client`
--   command {'command', offset, timestamp_ms, action, request, name of the crawl|'', the priority of
--            `reprioritize` or the end of `pause` in epoch s|0 [, occasion, its number]}
--   schedule {'schedule', offset, timestamp_ms, action, request, field of the schedule, definition,
--            most schedules}
--   seen    {'seen', offset, timestamp_ms, occasion, its number}: it took effect in a Redis that was lost
-- Returns: packed {'OK', applied, {offset, run …}, {offset, reason …}, version of the sites|'',
--   repetitions of occasions},
--   {'FULL', used, limit in bytes} if a seed must wait (0, 0: all must, see `withdraw`), or {'GAP',
--   position}: -1 if none is known, because Redis is new, or has lost the data of `restore`, which must be
--   called first
-- Cost: the work of about two commands per seed, eight with caps or times.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: dedupe
--- include: admit
--- include: seeds
--- include: crawls
--- include: again
--- include: steer
--- include: memory
--- include: profiles
--- include: refusals
--- include: schedules
--- include: occasions
--- include: told
--- include: run_end

local topic, kafka_partition, start, next_offset, profiles, records, are_ahead, epoch =
  unpack(cmsgpack.unpack(ARGV[1]))
-- Positions of the fields in records of both kinds; a seed has its crawl where a command has its action.
local KIND, OFFSET, TIMESTAMP, CRAWL, ACTION = 1, 2, 3, 4, 4
local place = topic .. ':' .. int(kafka_partition)
local position = tonumber(redis.call('HGET', K.positions, place) or -1)
if position < 0 or start > position then
  return cmsgpack.pack({ 'GAP', position })
end

if redis.call('HEXISTS', K.meta, 'moving') == 1 and next_offset > position then
  return cmsgpack.pack({ 'FULL', 0, 0 })
end

local runs, applied = {}, 0
load_refused(place, start)

local opened, latest_seeds = {}, {}

local function save_latest_seeds()
  for c, timestamp in pairs(latest_seeds) do
    local key, field = K.ledger(c), 'to:' .. place
    if timestamp > tonumber(redis.call('HGET', key, field) or NEVER) then
      redis.call('HSET', key, field, int(timestamp))
    end
  end
  latest_seeds = {}
end

local seed
do
  -- Return the crawl number and run of a seed, and note the source of the run's seeds. The result is
  -- reused for the crawl's next seeds in this call, until a command follows or its end time changes.
  local function run_for(name, expires, timestamp, offset, occasion)
    local found = opened[name]
    if not found or expires ~= 0 or offset < position then
      flush_seeds()
      -- This record is the first of a run that begins here.
      redis.call('HSET', K.positions, place, int(offset))
      local c, run = open_run(name, expires, occasion)
      note_seed_from(c, place, timestamp, offset, offset >= position)
      found = { c, run }
      opened[name] = expires == 0 and found or nil
    end
    local c = found[1]
    if timestamp > (latest_seeds[c] or NEVER) then
      latest_seeds[c] = timestamp
    end
    return c, found[2]
  end

  -- Set when a run ends, by what a seed says: a time, a budget of time, or both. A run that is over stays over.
  local function set_expiry(c, expires, max_seconds, place_in_time)
    if not is_open(c) or not is_latest(c, 'expires_by', place_in_time) then
      return
    end
    local key = K.ledger(c)
    local at, budget = end_of(expires, max_seconds, redis.call('HGET', key, 'started'))
    crawl_of(c).expires = at
    redis.call('HDEL', key, 'budget')
    redis.call('HSET', key, 'expires', int(at), 'expires_by', as_text(place_in_time),
      unpack(budget and { 'budget', budget } or {}))
    redis.call('ZADD', K.expiry, int(at), c)
    wake_tend_by(now + at * 1000 - wall)
  end

  -- Return the answer of a repeated seed again, if its crawl is still known.
  local function accept_again(name, uuid)
    local crawl = uuid ~= '' and load_name(name)
    if crawl and crawl_of(crawl.c).name then
      owe('accepted', crawl.c, { uuid = uuid })
    end
  end

  function seed(record)
    local offset, timestamp, name, domain, priority, S, fingerprint, body, profile,
      domain_cap, crawl_cap, expires, not_before, uuid, site, remember, occasion, n, told = unpack(record, 2)
    if was_stopped_after(name, place, timestamp, offset) then
      local crawl = load_name(name)
      if crawl then
        count(crawl.c, 'z:stopped', 1)
      end
      return refuse(offset, 'stopped')
    end
    site = site ~= '' and site or nil
    occasion = occasion ~= '' and occasion or nil
    if occasion and offset >= position and not is_first_of(occasion, n) then
      return accept_again(name, uuid)
    end
    local c, run = run_for(name, expires, timestamp, offset, occasion)
    if occasion and occasion_of[c] ~= occasion then
      note_occasion_of(c, occasion)
    end
    local max_seconds = told and told[1] or 0
    if expires ~= 0 or max_seconds > 0 then
      set_expiry(c, expires, max_seconds, { timestamp, kafka_partition, offset })
    end
    if remember and remember >= 0 then
      note_latest(remember_of, c, remember, { timestamp, kafka_partition, offset })
    end
    if told then
      note_latest(budgets_of, c, told, { timestamp, kafka_partition, offset })
    end
    local entry = profile_number(c, unpack(profiles[profile])) .. ',' .. body
    touched[c] = true
    note_seed_priority(c, priority)
    runs[#runs + 1], runs[#runs + 2] = offset, run
    local caps = caps_of(domain_cap, crawl_cap)
    if not caps and not_before <= wall then
      gather_seed(c, kind_of(c, S, priority), domain, site, fingerprint, entry)
    else
      local links = { priority, S, true, site or '', 1, domain, 1, fingerprint, entry }
      local has_entered, reason = admit_alone(c, links, caps, not_before)
      if not has_entered then
        return refuse(offset, reason)
      end
    end
    if uuid ~= '' then
      note_client(c, uuid, offset < position)
    end
  end
end

local command
do
  -- Stop a crawl; return the number of removed entries, and the run; nil if there was nothing to stop.
  local function stop(name, timestamp, offset)
    local record = load_name(name)
    local purged, run
    if record and is_meant_by_stop(first_seeds(record.c), place, timestamp) then
      if record.live and crawl_of(record.c).state == 'running' then
        owe_again(first_seeds(record.c), name, topic, place, timestamp, K.positions)
      end
      purged, run = close_run(name, 'stopping')
    end
    forget_again(name, place)
    note_stop(name, place, timestamp, offset)
    return purged, run
  end

  -- Pause, resume or reprioritize a crawl; return the run, nil if the crawl is not running.
  local function steer_run(name, action, aim)
    local record = load_name(name)
    if record and record.live and is_open(record.c) then
      steer[action](record.c, aim)
      note_steered(record.c)
      return record.run
    end
  end

  function command(record, is_answered)
    local offset, timestamp, action, request, name, aim, occasion, n = unpack(record, 2)
    if occasion and not is_answered and not is_first_of(occasion, n) then
      name = ''
    end
    opened = {}
    flush_seeds()
    save_latest_seeds()
    save_told()
    local purged, run
    if name ~= '' and action == 'stop' then
      purged, run = stop(name, timestamp, offset)
    elseif name ~= '' and steer[action] then
      run = steer_run(name, action, aim)
    end
    if is_answered then
      return
    end
    local fields = { 'name', action, 'request', request }
    for field, value in pairs({ purged = purged, run = run }) do
      fields[#fields + 1], fields[#fields + 2] = field, int(value)
    end
    redis.call('XADD', K.actions, '*', unpack(fields))
  end
end

-- Apply a client's command for a schedule; redis-monitor answers it.
local function schedule(record)
  local _, _, action, request, field, definition, most = unpack(record, 2)
  local outcome = steer_schedule(action, field, definition, most)
  redis.call('XADD', K.actions, '*', 'name', 'schedule', 'request', request, 'outcome', outcome)
end

local function seen(record)
  note_occasion(record[4], record[5])
end

-- `ahead` HASH "<place> <offset>" of stops that were done, and answered, before their turn.
local function ahead_field(offset)
  return place .. ' ' .. int(offset)
end

-- Apply a command in its turn. A stop that was done ahead is done again, for the seeds since then.
local function command_in_turn(record)
  command(record, redis.call('HDEL', K.ahead, ahead_field(record[OFFSET])) == 1)
end

-- Apply the stops behind a waiting seed, each once; skip records that a lost Redis had already applied.
local function stop_ahead(first)
  local past = tonumber(redis.call('HGET', K.lost, '#' .. place) or 0)
  for i = first, #records do
    local record = records[i]
    if record[KIND] == 'command' and record[ACTION] == 'stop' and record[OFFSET] >= math.max(position, past)
      and redis.call('HSETNX', K.ahead, ahead_field(record[OFFSET]), '') == 1 then
      command(record)
    end
  end
end

local used, limit = memory()

-- Return true if a record must wait: a seed, if Redis is full and no stop covers the seed.
local function must_wait(record)
  return record[KIND] == 'seed' and is_full(used, limit)
    and not was_stopped_after(record[CRAWL], place, record[TIMESTAMP], record[OFFSET])
end

-- Return true if a record takes effect now: it is new, or a seed that a late stop did not cover.
local function counts_now(record)
  local kind, offset, timestamp, name = unpack(record, KIND, CRAWL)
  return offset >= position or kind == 'seed' and enters_again(place, name, offset, timestamp)
    and not was_stopped_after(name, place, timestamp, offset)
end

local reached = next_offset

-- `epochs` HASH place -> leader epoch of the record before the position, or a later one: a log that has
-- lost that record ends this epoch before the position. Absent if no record stands there.
local function save_epoch()
  if reached <= position then
    return
  elseif epoch >= 0 then
    redis.call('HSET', K.epochs, place, int(epoch))
  else
    redis.call('HDEL', K.epochs, place)
  end
end

local effects = { seed = seed, command = command_in_turn, schedule = schedule, seen = seen }
if are_ahead and is_full(used, limit) then
  stop_ahead(1)
end
for i = 1, are_ahead and 0 or #records do
  local record = records[i]
  if counts_now(record) then
    if must_wait(record) then
      reached = record[OFFSET]
      stop_ahead(i)
      break
    end
    effects[record[KIND]](record)
    applied = applied + (record[OFFSET] >= position and 1 or 0)
  end
end
flush_seeds()
save_latest_seeds()
save_told()
save_occasions()
note_read_again(place, start, reached)
save_refused(place)
redis.call('HSET', K.positions, place, int(math.max(position, reached)))
save_epoch()
finish()
if reached < next_offset then
  return cmsgpack.pack({ 'FULL', used, limit })
end
return cmsgpack.pack({ 'OK', applied, runs, refused_before(next_offset), sites or '', repeated })
