#!lua flags=allow-oom
-- survey: return the rule, the throttle state and the queues of one domain.
-- Guarantee: one moment, no effect.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 domain, 2 most bands per spider, 3 the view whose limits are returned, if views have limits of
--   their own ('': any).
-- Returns: packed {rule, unreported, concurrent, not_before_ms from now, next_ms from now, queues,
--   view|'' if there is one only, mean ms to the first byte, its floor, ms of spacing that they require (0: unknown),
--   gate of its group, strikes, silences, ms without an answer, Crawl-delay in ms, 1 while it rests outside its hours}
--   gate  {name, rule, unreported, concurrent, ms until its next request, domains that wait in it}; {}: it has none
--   queue {spider, 'ready'|'waiting'|'parked'|'', due_ms from now|-1, bands, {name, standing, length …}},
--   best standing first; `bands` is their total number
-- Cost: O(spiders + requested bands).
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands

local domain, most, view = ARGV[1], tonumber(ARGV[2]), ARGV[3]
if view == '' and scope ~= '' then
  for _, S in ipairs(redis.call('SMEMBERS', K.spiders)) do
    view = views_of(S)[1] or view
  end
end
if view == '' and scope ~= '' then
  view = '-@-'
end
local next_at = earliest(view, domain)
local state = state_of(view, domain)
local unreported, concurrent, not_before = unpack(state, 1, 3)
local mean, floor, gentle_spacing = 0, 0, 0
if made_gentle then
  mean, floor, gentle_spacing = made_gentle.shown(state)
end

-- The gate, the domains of the view that wait in it, and the time of its next request.
local gate, in_gate, gate_at = gates and gates.of({ domain })[1], 0, now
local gate_rule, gate_unreported, gate_concurrent = '', 0, 0
if gate then
  gate_rule = gates.inside().rule_text(gate)
  local gate_state = gates.inside().states(view, { gate })[1]
  for _, S in ipairs(redis.call('SMEMBERS', K.spiders)) do
    in_gate = in_gate + redis.call('ZCARD', K.at_gate(is_by_group and spider_of(view) == S and view or S, gate))
  end
  gate_unreported, gate_concurrent = unpack(gate_state, 1, 2)
  local allowed, later = allowance(gate_state)
  gate_at = allowed > 0 and now or later
end

-- Return the place of the domain in the indexes of a view, and the time when it is due.
local function place_of(V)
  if redis.call('ZSCORE', K.ready(V), domain) then
    return 'ready', 0
  end
  local due = redis.call('ZSCORE', K.waiting(V), domain)
  if due then
    return 'waiting', math.max(tonumber(due) - now, 0)
  end
  if gate and redis.call('ZSCORE', K.at_gate(V, gate), domain) then
    return 'waiting', math.max(gate_at - now, 0)
  end
  return redis.call('SISMEMBER', K.parked(V), domain) == 1 and 'parked' or '', -1
end

local queues = {}
for _, S in ipairs(redis.call('SMEMBERS', K.spiders)) do
  local o = redis.call('HGET', K.tags(S), domain)
  if o then
    local place, due = place_of(is_by_group and spider_of(view) == S and view or S)
    local q = K.several(S, domain)
    local tags = o == domain_tags.SEVERAL and redis.call('ZRANGE', q, 0, most - 1) or { o }
    local bands = {}
    for _, tag in ipairs(tags) do
      local c, priority = standing(tag)
      bands[#bands + 1] = crawl_of(c).name or ''
      bands[#bands + 1] = priority
      bands[#bands + 1] = redis.call('LLEN', K.band(S, tag, domain)) + redis.call('LLEN', K.tail(S, tag, domain))
        + (shelf_notes().get(S, tag, domain) or 0)
    end
    queues[#queues + 1] = { S, place, due, o == domain_tags.SEVERAL and redis.call('ZCARD', q) or 1, bands }
  end
end

local rule = rules_known and (redis.call('HGET', K.rules, domain)
  or redis.call('HGET', K.rules, DEFAULT_RULE)) or ''
return cmsgpack.pack({ rule, unreported, concurrent, math.max(not_before - now, 0),
  math.max(next_at - now, 0), queues, scope ~= '' and view or '', mean, floor, gentle_spacing,
  gate and { gate, gate_rule, gate_unreported, gate_concurrent, math.max(gate_at - now, 0), in_gate } or {},
  care_of(state) })
