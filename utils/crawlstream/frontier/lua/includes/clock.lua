-- The frontier clock, and the life of this Redis.
-- Guarantee: `now` never goes back, and gains at most 10 s between two calls, whatever the
--   machine's clock does: a step of it gives no time away. `life` is another, larger number whenever
--   the server was restarted since the last call, also with an older copy of its data or with none;
--   `restart` is the clock's value at that moment.
--   In a Redis without a frontier nothing is done, but NOFRONTIER answered: a call founds none, be it
--   late, or asked of another Redis by mistake. `Positions.restore` does, and a process that starts.
-- Sets: P (prefix of every key), now (frontier ms), wall (epoch ms), life, restart, turn,
--   rules_known, sites (version of the map of sites, see `rules`; nil while domains are whole),
--   scope ('type', 'group', both or nothing: what a domain's limits are kept for, see `views`).
-- Cost: TIME, INFO and one HMGET; `save_clock` is one HSET and must end every script that writes.
local P = KEYS[1]
local NEVER, FOREVER, RUN_ID_SIZE = -1e15, 9e15, 40
local now, wall, life, restart, turn, rules_known, sites, scope

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
  redis.call('HSET', P .. 'm', 'clock', int(now), 'wall', int(wall), 'turn', int(turn))
end

do
  local time = redis.call('TIME')
  wall = time[1] * 1000 + math.floor(time[2] / 1000)
  local info = redis.call('INFO', 'server')
  local _, before = string.find(info, 'run_id:', 1, true)
  local run_id = string.sub(info, before + 1, before + RUN_ID_SIZE)
  local m = redis.call('HMGET', P .. 'm', 'clock', 'wall', 'run_id', 'life', 'restart', 'turn', 'mzxid',
    'sites', 'scope', 'layout')
  if not m[1] and not m[10] then
    return redis.error_reply('NOFRONTIER Redis holds no frontier')
  end
  turn, rules_known, sites = tonumber(m[6] or 0), m[7] and true or false, m[8] or nil
  scope = m[9] or ''
  if m[1] then
    now, life, restart = tonumber(m[1]), tonumber(m[4]), tonumber(m[5])
    local passed = wall - tonumber(m[2])
    if passed >= 0 and passed <= 10000 then
      now = now + passed
    end
  else
    now, life, restart = wall, 0, NEVER
  end
  if m[3] ~= run_id then
    life, restart = math.max(life + 1, math.floor(wall / 1000)), m[1] and now or NEVER
    redis.call('HSET', P .. 'm', 'run_id', run_id, 'life', int(life), 'restart', int(restart))
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
