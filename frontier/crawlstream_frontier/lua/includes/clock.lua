-- The frontier clock, and the epoch (`life`) of this Redis.
-- Guarantee: `now` never goes back. It gains the time that has passed by Redis' clock, but no more than
--   the caller's monotonic clock confirms, so that a step of Redis' clock adds no time. Unconfirmed time
--   is missed permanently. `life` is another, larger number whenever the server was restarted since
--   the last call, also with an older copy of its data or with none; `restart` is the clock's value
--   at that moment.
--   In a Redis without a frontier an operation answers NOFRONTIER and does nothing: a call creates none, even if
--   it is late, or sent to a wrong Redis. `Positions.restore` does, and a process that starts.
-- The reckoning is the clock plus all time that it has missed: it does not stand still when the clock
--   does, so that a caller's old reckoning shows how far the clock may have come.
-- A run expires permanently, and a wrong clock is often corrected soon. When the machine's clock leaps ahead of what
--   the callers confirm, no run expires by it for a minute of the frontier clock. `leapt` in `m` is
--   "<frontier ms of the leap> <machine's clock before it>".
-- ARGV, the last two: life and least reckoning in ms as the caller knows them; 0 0: unknown.
-- Sets: P (prefix of every key), now (frontier ms), wall (epoch ms), life, restart, turn,
--   rules_known, sites (version of the map of sites, see `rules`; nil while no domain is split),
--   scope ('type', 'group', both or nothing: units with limits of their own in a domain, see `views`),
--   PUBLISH (the command that wakes: on a cluster, a plain one would go to every node).
-- Cost: TIME, INFO and one HMGET; `save_clock` is one HSET and must end every script that writes.
--- include: keys
local NEVER, FOREVER, RUN_ID_SIZE = -1e15, 9e15, 40
-- The prefix of one of several partitions has a dot; `FrontierKeys.is_sharded` uses the same rule.
local PUBLISH = string.find(K.meta, '.', 1, true) and 'SPUBLISH' or 'PUBLISH'
local now, wall, life, restart, turn, rules_known, sites, scope
local missed, missed_before, is_saved, leapt = 0, 0, false, nil

local int_texts = {}

-- Whole numbers as text. Formatting is expensive, and most numbers recur: times, priorities, counts.
local function int(number)
  local text = int_texts[number]
  if not text then
    text = string.format('%d', number)
    int_texts[number] = text
  end
  return text
end

local function save_clock()
  redis.call('HSET', K.meta, 'clock', int(now), 'wall', int(wall), 'turn', int(turn))
  if missed ~= missed_before then
    redis.call('HSET', K.meta, 'missed', int(missed))
  end
  if leapt then
    redis.call('HSET', K.meta, 'leapt', leapt)
  end
  is_saved = true
end

-- Pack the answer of an operation with the reckoning (0: it may still be lost) and the life, for
-- `source_of`.
local function with_time(answer)
  return { answer, is_saved and now + missed or 0, life }
end

-- Return the version of the map of sites ('': no domain is split), and the date in epoch ms.
local function version_and_date()
  return sites or '', wall
end

-- Return the latest time, in epoch ms, up to which runs may expire when the machine's clock shows `date`; and the
-- frontier time from which on that is `date` itself.
local function trusted(date)
  local TRUST_MS = 60000
  local at, before = string.match(leapt or redis.call('HGET', K.meta, 'leapt') or '', '^(%d+) (%d+)$')
  local from = at and at + TRUST_MS or NEVER
  return now < from and math.min(date, before) or date, from
end

do
  -- Delay of a call, and so of the clock, that misses no time.
  local LATE_MS = 100
  -- Larger than any caller's reckoning: all callers learn the new one.
  local UNKNOWN_MS = 10000000
  -- Unconfirmed time above which a clock has leapt. A time without callers looks the same.
  local LEAP_MS = 60000

  local time = redis.call('TIME')
  wall = time[1] * 1000 + math.floor(time[2] / 1000)
  local info = redis.call('INFO', 'server')
  local _, before = string.find(info, 'run_id:', 1, true)
  local run_id = string.sub(info, before + 1, before + RUN_ID_SIZE)
  local m = redis.call('HMGET', K.meta, 'clock', 'wall', 'run_id', 'life', 'restart', 'turn', 'mzxid',
    'sites', 'scope', 'missed')
  if not m[1] and redis.call('HEXISTS', K.meta, 'layout') == 0 then
    return redis.error_reply('NOFRONTIER Redis holds no frontier')
  end
  turn, rules_known, sites = tonumber(m[6] or 0), m[7] and true or false, m[8] or nil
  scope = m[9] or ''
  local is_restarted = m[3] ~= run_id
  if m[1] then
    now, life, restart, missed = tonumber(m[1]), tonumber(m[4]), tonumber(m[5]), tonumber(m[10] or 0)
    missed_before = missed
    int_texts[turn], int_texts[missed] = m[6], m[10]  -- Mostly they are written as they were read.
    -- Advance the clock: `passed` ms by Redis' clock, at most `borne` ms by the caller's (nil:
    -- unknown). Time that only one of them confirms is missed.
    local passed, borne = wall - m[2], nil
    if not is_restarted and ARGV[#ARGV - 1] == m[4] then
      borne = ARGV[#ARGV] - missed - now
    end
    local gained = math.max(math.min(passed, borne or 0), 0)
    if passed < 0 and (borne or -1) < 0 then
      missed = missed + UNKNOWN_MS
    elseif not borne or passed - borne > LATE_MS then
      missed = missed + passed - gained
    elseif borne - gained > LATE_MS then
      missed = missed + borne - gained - LATE_MS
    end
    now = now + gained
    if passed - (borne or 0) > LEAP_MS then
      leapt = int(now) .. ' ' .. int((trusted(tonumber(m[2]))))
    end
  else
    now, life, restart = wall, 0, NEVER
  end
  if is_restarted then
    -- In ms: a server may restart twice within a second, and lose the record of its first restart.
    life, restart = math.max(life + 1, wall), m[1] and now or NEVER
    redis.call('HSET', K.meta, 'run_id', run_id, 'life', int(life), 'restart', int(restart))
    save_clock()
  end
end

-- Return true if a time of day, in epoch s, has come, also by the date before a recent leap.
local function has_come(at_s)
  return at_s * 1000 <= wall and at_s * 1000 <= trusted(wall)
end

-- A field or member with a long value, so that Redis does not keep a large key in its compact
-- form, which it searches from end to end. No domain has this name.
local PAD, PADDING = '#', string.rep('#', 65)

local function pad(key)
  redis.call('HSET', key, PAD, PADDING)
end

-- Return the next number of the sequence that orders equals: round-robin and FIFO ties.
local function next_turn()
  turn = turn + 1
  return turn
end
