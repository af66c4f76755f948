-- The frontier clock, and the life of this Redis.
-- Guarantee: `now` never goes back, and gains what Redis' clock says has passed, but no more than
--   the caller's steady clock bears out: no step of Redis' clock gives time away. What nobody bears
--   out is missed for good. `life` is another, larger number whenever the server was restarted since
--   the last call, also with an older copy of its data or with none; `restart` is the clock's value
--   at that moment.
--   In a Redis without a frontier nothing is done, but NOFRONTIER answered: a call founds none, be it
--   late, or asked of another Redis by mistake. `Positions.restore` does, and a process that starts.
-- The reckoning is the clock and all that it has missed, together: it does not stand when the clock
--   does, so that what a caller has learned of it long ago tells how far the clock may be by now.
-- ARGV, the last two: life and least reckoning in ms as the caller knows them; 0 0: it knows nothing.
-- Sets: P (prefix of every key), now (frontier ms), wall (epoch ms), life, restart, turn,
--   rules_known, sites (version of the map of sites, see `rules`; nil while domains are whole),
--   scope ('type', 'group', both or nothing: what a domain's limits are kept for, see `views`),
--   PUBLISH (the command that wakes: on a cluster, a plain one would go to every node).
-- Cost: TIME, INFO and one HMGET; `save_clock` is one HSET and must end every script that writes.
--- include: keys
local NEVER, FOREVER, RUN_ID_SIZE = -1e15, 9e15, 40
-- The prefix of one of several partitions has a dot; `FrontierKeys.is_sharded` says the same.
local PUBLISH = string.find(K.meta, '.', 1, true) and 'SPUBLISH' or 'PUBLISH'
local now, wall, life, restart, turn, rules_known, sites, scope
local missed, missed_before, is_saved = 0, 0, false

local int_texts = {}

-- A whole number as text. To make one is dear, and most come again: times, priorities, counts.
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
  is_saved = true
end

-- What `source_of` lets every operation answer: its own answer, the reckoning (0: nothing that will
-- stay) and the life.
local function with_time(answer)
  return { answer, is_saved and now + missed or 0, life }
end

do
  -- So much a call may be late, and the clock with it, without that it misses any time for good.
  local LATE_MS = 100
  -- More than any caller has in hand: all of them learn the reckoning anew.
  local UNKNOWN_MS = 10000000

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
    -- Let time pass: `passed` ms by Redis' clock, no more than `borne` ms by the caller's (nil: it cannot
    -- tell). What only one of them says is missed.
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
  else
    now, life, restart = wall, 0, NEVER
  end
  if is_restarted then
    -- In ms: a server may be restarted twice in a second, and lose that it was restarted first.
    life, restart = math.max(life + 1, wall), m[1] and now or NEVER
    redis.call('HSET', K.meta, 'run_id', run_id, 'life', int(life), 'restart', int(restart))
    save_clock()
  end
end

-- A field with a long value, or a long member, so that Redis does not keep a large key in its compact
-- form, which it searches from end to end. No domain is called so.
local PAD, PADDING = '#', string.rep('#', 65)

local function pad(key)
  redis.call('HSET', key, PAD, PADDING)
end

-- Next number of the sequence that orders equals: round-robin and FIFO ties.
local function next_turn()
  turn = turn + 1
  return turn
end
