#!lua flags=allow-oom
-- scope: set whether each spider type, and each egress group, has limits of its own per domain.
-- Guarantee: the first caller decides; another value changes it only by force. Then the states of
--   all domains are deleted, each domain is treated as if its allowance had been used up now, and the
--   indexes are rebuilt.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 '', 'type', 'group' or 'type group'; 2 '1': by force.
-- Returns: the scope in force from now on.
-- Cost: one field; by force O(domains), all at once.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands

local wanted, is_forced = ARGV[1], ARGV[2] == '1'
local known = redis.call('HGET', K.meta, 'scope')
if known == wanted or (known and not is_forced) then
  finish()
  return known
end

-- Delete the indexes of the former views, and have new ones filled.
local function rebuild(S)
  for _, V in ipairs(views_of(S)) do
    redis.call('UNLINK', K.waiting(V), K.ready(V), K.parked(V))
    if gates then
      gates.inside().changes().drop(V)
    end
    redis.call('HDEL', K.revise, V)
    wake(V, 1000)
  end
  redis.call('UNLINK', K.views(S))
  if not string.find(wanted, 'group', 1, true) then
    redis.call('ZADD', K.waiting(S), int(FOREVER), PADDING)
    redis.call('HSET', K.revise, S, 'o 0')
    wake_tend_by(now)
  end
end

-- The states have one field of padding.
local spiders = redis.call('SMEMBERS', K.spiders)
if (known or '') ~= wanted and (#spiders > 0 or redis.call('HLEN', K.states) > 1) then
  for _, S in ipairs(spiders) do
    rebuild(S)
  end
  life, restart = life + 1, now
  redis.call('HSET', K.meta, 'life', int(life), 'restart', int(restart))
  redis.call('UNLINK', K.states, K.latency, K.spent)
  pad(K.states)
end
redis.call('HSET', K.meta, 'scope', wanted)
finish()
return wanted
