#!lua flags=allow-oom
-- reserve: reserve the next request that a site allows, for a request without an entry: the robots.txt
--   that another site redirects to.
-- Guarantee: it counts as sent at the end of its time, and nothing is granted until then. So it can exceed
--   neither the window nor the concurrency, whatever its outcome. A site gives one per PAUSE_MS, so that a
--   site which redirects to it cannot block its own pages; one more after the first that was not sent
--   because the site has a gate by its address.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 spider, 2 egress group, '' for none, 3 site, 4 ms that the request takes at most, 5 ms within
--   which it must be allowed, 6 gate of the site by its address, '=' for none, if the request before was not
--   sent; else ''.
-- Returns: packed {ms until it may be sent|-1|-2, life, version of the sites|'', gate that is used|'',
--   end of its time by the frontier's clock}
--   -1: retry later; -2: the site is blocked or paused
-- Cost: about ten commands.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands

local PAUSE_MS = 60000
-- Return the time of the next allowed request, if it is allowed by `latest`; -1 if it is later or unknown, -2 if the
-- rule allows nothing.
local function reservable(state, latest)
  local rule = state.rule
  if rule.hits == 0 or rule.paused_until > wall then
    return -2
  end
  local allowed, at = allowance(state)
  if allowed > 0 then
    at = now
  end
  local is_tried = state[NOT_BEFORE] ~= 0 and state[STRIKES] > 0
  local is_full = state[CONCURRENT] >= (is_tried and 1 or rule.concurrency)
  -- During a pause, and if more requests count than the rule allows, `at` is the time of the next look.
  local is_vague = state[NOT_BEFORE] > now or (not rule.moderated and state[SENDS] > rule.hits)
  if at > latest or (allowed == 0 and (is_full or is_vague or state[UNREPORTED] > 0)) then
    return -1
  end
  return at
end

-- Reserve a request: it may be in flight for `ms` from `at` on, and nothing else is granted. Answers to earlier grants
-- no longer change the site's state.
local function reserve(state, at, ms)
  take_care(state)
  state[NOT_BEFORE], state[STRUCK_AT] = at + ms, at + ms
  add_sends(state, at + ms, 1)
  state[BONUS] = state[BONUS] == BONUS_DUE and BONUS_GIVEN or NO_BONUS
  changed_states[state.key] = state
end

local V, site, located = view_of(ARGV[1], ARGV[2]), ARGV[3], ARGV[6]
if gates and located ~= '' then
  if not gates.of({ site })[1] then
    redis.call('UNLINK', K.robots(site))
  end
  gates.inside().changes().locate(site, located == '=' and '' or located)
end
local gate = gates and gates.of({ site })[1]

local function reserved()
  if not V or not rules_known or redis.call('EXISTS', K.robots(site)) == 1 then
    return -1
  end
  local keys = keys_of(V, { site })
  local states = load_states(keys)
  join_rules({ site }, states)
  states[2] = gate and gates.inside().states(V, { gate })[1] or nil
  local at = now
  for _, state in ipairs(states) do
    local next_at = reservable(state, now + tonumber(ARGV[5]))
    at = next_at >= 0 and at >= 0 and math.max(at, next_at) or math.min(at, next_at)
  end
  if at >= 0 then
    for _, state in ipairs(states) do
      reserve(state, at, tonumber(ARGV[4]))
      redis.call('ZADD', K.spent, 'NX', int(now + PAUSE_MS), state.key)
    end
    redis.call('SET', K.robots(site), 'reserved', 'PX', PAUSE_MS)
    at = math.ceil(at - now)
  end
  return at
end

local answer = reserved()
local over_at = math.ceil(now + math.max(answer, 0) + tonumber(ARGV[4]))
finish()
return cmsgpack.pack({ answer, life, sites or '', gate or '', over_at })
