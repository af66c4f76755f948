#!lua flags=allow-oom
-- reacted: report how a site reacted to a request that it had reserved.
-- Guarantee: a refusal or silence delays the next requests as one to a page does. An answer ends the back-off, and
--   the pause of the reservation, unless the site has refused another request since. After a restart an answer changes
--   nothing, and a refusal only delays requests for as long as the site asks for. A repeated report counts once.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 spider, 2 egress group, '' for none, 3 site, 4 end of the reservation as answered by `reserve`, 5 life of
--   that answer, 6 reaction, 7 wait_ms, 8 until_ms: see `heed`.
-- Returns: 1; 0 if it was reported before, or the rules are unknown.
-- Cost: about eight commands.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands

local KEPT_MS, REACTED = 60000, 'reacted'
local V, site, over_at, reaction = view_of(ARGV[1], ARGV[2]), ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[6])
if not V or not rules_known or redis.call('GET', K.robots(site)) == REACTED then
  return 0
end
redis.call('SET', K.robots(site), REACTED, 'XX', 'KEEPTTL')
local is_known = tonumber(ARGV[5]) == life
local state = load_states(keys_of(V, { site }))[1]
join_rules({ site }, { state })
if reaction ~= ANSWER or (is_known and state[NOT_BEFORE] <= over_at) then
  heed({ since = is_known and over_at or NEVER }, state, reaction, tonumber(ARGV[7]), tonumber(ARGV[8]))
  redis.call('ZADD', K.spent, 'NX', int(now + KEPT_MS), state.key)
end
finish()
return 1
