#!lua flags=allow-oom
-- intake: consecutive records of one Kafka partition take effect, with their position.
-- Guarantee: each record takes effect once, in record order, whoever sends it and how often: records
--   below the position are skipped, a gap writes nothing. stop, pause, resume and reprioritize take
--   effect here, between the seeds before and after them; a seed of another partition that is younger
--   than a stop, but came first, enters the run after it. Seeds wait while Redis is full, and whatever
--   follows them; commands ahead of them take effect.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {topic uuid, kafka partition, start, next, profiles {{hash, bytes} …}, records}
--   seed    {'seed', offset, timestamp_ms, name, domain, priority, spider, fingerprint, body,
--            profile index, domain_cap|-1, crawl_cap|-1, expires_s, not_before_ms, uuid|'',
--            has its record the key of the crawl, its site if its domain is parted}
--   command {'command', offset, timestamp_ms, action, request, name of the crawl|'', priority}
-- Returns: packed {'OK', applied, {offset, run …}, {offset, reason …}, version of the sites|''},
--   {'FULL', used, limit in bytes} where a seed must wait, or {'GAP', position}: -1 where none is
--   known, for Redis is new (`restore` tells one)
-- Cost: about two commands' work a seed, eight where caps or times apply.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: dedupe
--- include: admit
--- include: seeds
--- include: crawls
--- include: young
--- include: steer
--- include: memory

local topic, kafka_partition, start, next_offset, profiles, records = unpack(cmsgpack.unpack(ARGV[1]))
local place = topic .. ':' .. int(kafka_partition)
local position = tonumber(redis.call('HGET', P .. 'positions', place) or -1)
if position >= next_offset then
  return cmsgpack.pack({ 'OK', 0, {}, {}, sites or '' })
end
if start > math.max(position, 0) then
  return cmsgpack.pack({ 'GAP', position })
end

local runs, refused, applied = {}, {}, 0
local numbers = {}

-- Number of the i-th profile within crawl c, stored once.
local function profile_number(c, i)
  local known_as = c .. '/' .. i
  if not numbers[known_as] then
    local key, hash, bytes = P .. 'f:' .. c, '#' .. profiles[i][1], profiles[i][2]
    local number = redis.call('HGET', key, hash)
    if not number then
      number = int(redis.call('HINCRBY', key, '#', 1))
      redis.call('HSET', key, hash, number, number, bytes)
    end
    numbers[known_as] = number
  end
  return numbers[known_as]
end

local function refuse(offset, reason)
  refused[#refused + 1] = offset
  refused[#refused + 1] = reason
end

local opened = {}

-- The crawl number and run of a seed, noting where the run's seeds come from. What was found for a
-- crawl holds for its next seeds in this call, until a command follows or it gets another time to end.
local function run_for(name, expires, timestamp, offset, place)
  local found = opened[name]
  if not found or expires ~= 0 then
    flush_seeds()
    -- A run that begins here begins with this record.
    redis.call('HSET', P .. 'positions', place, int(offset))
    local c, run = open_run(name, expires)
    redis.call('HSETNX', P .. 'x:' .. c, from_field(place), int(timestamp))
    found = { c, run }
    opened[name] = expires == 0 and found or nil
  end
  return found[1], found[2]
end

local function set_expiry(c, expires)
  crawl_of(c).expires = expires
  redis.call('HSET', P .. 'x:' .. c, 'expires', int(expires))
  redis.call('ZADD', P .. 'expiry', int(expires), c)
  wake_tend_by(now + expires * 1000 - wall)
end

-- Whether nothing can refuse a seed or delay it.
local function may_gather(domain_cap, crawl_cap, not_before)
  local caps = caps_on_queues()
  return domain_cap < 0 and crawl_cap < 0 and not_before <= wall and caps[1] == 0 and caps[2] == 0
end

local function admit_seed(place, offset, timestamp, name, domain, priority, S, fingerprint, body,
    profile, domain_cap, crawl_cap, expires, not_before, uuid, is_keyed, site)
  if was_stopped_after(name, place, timestamp) then
    local record = load_name(name)
    if record then
      count(record.c, 'z:stopped', 1)
    end
    return refuse(offset, 'stopped')
  end
  local c, run = run_for(name, expires, timestamp, offset, place)
  if expires ~= 0 then
    set_expiry(c, expires)
  end
  if not is_keyed then
    remember(c, { offset, timestamp, name, domain, priority, S, fingerprint, body,
      profiles[profile][1], domain_cap, crawl_cap, expires, not_before, '', place })
  end
  local entry = profile_number(c, profile) .. ',' .. body
  touched[c] = true
  note_seed_priority(c, priority)
  runs[#runs + 1], runs[#runs + 2] = offset, run
  if may_gather(domain_cap, crawl_cap, not_before) then
    gather_seed(c, domain, priority, S, fingerprint, entry, site)
  else
    flush_seeds()
    local links = { priority, S, true, site or '', 1, domain, 1, fingerprint, entry }
    local due = not_before > wall and now + not_before - wall or nil
    load_domain_records(c, { domain })
    local entered, reason = admit(c, links, domain_cap, crawl_cap, due, true)
    save_domain_records()
    if entered == 0 then
      return refuse(offset, reason)
    end
  end
  if uuid ~= '' then
    owe('accepted', c, { uuid = uuid })
  end
end

local function seed(...)
  admit_seed(place, ...)
end

-- Let seeds that are younger than a stop begin the run after it, with the positions as they were then.
local function admit_again(young)
  local reached = {}
  for _, one in ipairs(young) do
    local at = one[FIELD_PLACE]
    if not reached[at] then
      reached[at] = redis.call('HGET', P .. 'positions', at)
      redis.call('HSET', P .. 'positions', at, int(one[1]))
    end
  end
  -- What is answered is about the records of this call.
  local answered, told = runs, refused
  runs, refused = {}, {}
  for _, one in ipairs(young) do
    profiles[#profiles + 1] = { one[FIELD_HASH], one.profile }
    one[FIELD_HASH] = #profiles
    admit_seed(one[FIELD_PLACE], unpack(one, 1, FIELD_PLACE - 1))
  end
  flush_seeds()
  runs, refused = answered, told
  for at, offset in pairs(reached) do
    redis.call('HSET', P .. 'positions', at, offset)
  end
end

-- Stop a crawl: how many entries waited, and the run; nil where there was nothing to stop.
local function stop(name, timestamp, offset)
  local record = load_name(name)
  local purged, run
  local young = {}
  if record and is_meant_by_stop(record.c, place, timestamp) then
    young = younger_than_stop(record.c, place, timestamp)
    purged, run = close_run(name, 'stopping')
  end
  note_stop(name, place, timestamp)
  if #young > 0 then
    redis.call('HSET', P .. 'positions', place, int(offset + 1))
    admit_again(young)
  end
  return purged, run
end

-- Pause, resume or reprioritize a crawl: the run that it means, nil where none is under way.
local function steer_run(name, action, priority)
  local record = load_name(name)
  if record and record.live and is_open(record.c) then
    steer[action](record.c, priority)
    return record.run
  end
end

local function command(offset, timestamp, action, request, name, priority)
  opened = {}
  flush_seeds()
  local purged, run
  if name ~= '' and action == 'stop' then
    purged, run = stop(name, timestamp, offset)
  elseif name ~= '' and steer[action] then
    run = steer_run(name, action, priority)
  end
  local fields = { 'name', action, 'request', request }
  for field, value in pairs({ purged = purged, run = run }) do
    fields[#fields + 1], fields[#fields + 2] = field, int(value)
  end
  redis.call('XADD', P .. 'actions', '*', unpack(fields))
end

local effects = { seed = seed, command = command }
local used, limit = memory()
local is_refused = false
for i = 1, #records do
  local record = records[i]
  if record[2] >= position then
    if record[1] == 'seed' and is_full(used, limit) then
      is_refused, next_offset = true, record[2]
      break
    end
    effects[record[1]](unpack(record, 2))
    applied = applied + 1
  end
end
flush_seeds()
save_young()
redis.call('HSET', P .. 'positions', place, int(next_offset))
save_ledger()
wake_workers()
save_clock()
if is_refused then
  return cmsgpack.pack({ 'FULL', used, limit })
end
return cmsgpack.pack({ 'OK', applied, runs, refused, sites or '' })
