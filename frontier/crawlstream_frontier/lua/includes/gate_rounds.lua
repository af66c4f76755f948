-- Rounds of a view whose domains may have gates (see `gates`): their candidates, and what becomes of them.
-- Guarantee: a domain with a gate is served from its gate only, best and first come first; it costs as much as any
--   other, however many domains wait there, because a turn takes no more of them than the gate allows.
-- Part of `lease`. Cost: up to five more commands for each gate of a round.
if gates then
local MOST_ENTERED, entered = 512, 0

-- Return the gates among members of an index, or of domains there: note them in `opened`. Split the others.
local function split(members, opened)
  local gate_of, direct, gated = gates.of(members), {}, {}
  for i = 1, #members do
    local member = members[i]
    local gate = gate_of[member]
    if gate then
      opened[gate], gated[#gated + 1] = true, member
    elseif gate == nil then
      opened[member] = true
    else
      direct[#direct + 1] = member
    end
  end
  return direct, gated, gate_of
end

-- Let domains wait in their gates, with these scores; remove them from an index.
local function enter_gates(V, index, gated, scores)
  local gate_of, args_of = gates.of(gated), {}
  for i = 1, #gated do
    local gate = gate_of[gated[i]]
    local args = args_of[gate] or {}
    local n = #args
    args[n + 1], args[n + 2], args_of[gate] = scores[i], gated[i], args
  end
  for gate, args in pairs(args_of) do
    redis.call('ZADD', K.at_gate(V, gate), 'NX', unpack(args))
  end
  redis.call('ZREM', index, unpack(gated))
end

-- Make due domains ready, or let them wait in their gates; note the gates.
local function ready_due(V, due, opened)
  local domains, gated = split(due, opened)
  local o = tags_of(V, K.waiting(V), domains)
  if #domains > 0 then
    promote(V, domains, o)
  end
  o = tags_of(V, K.waiting(V), gated)
  local ranks, scores = {}, {}
  for i = 1, #gated do
    local top = top_of(V, gated[i], o[i])
    ranks[top] = ranks[top] or rank(top)
    scores[i] = ranks[top]
  end
  if #gated > 0 then
    enter_gates(V, K.waiting(V), gated, scores)
  end
end

-- Return up to `limit` ready domains without a gate; let the others that come before them wait in their gates.
local function ready_ones(V, limit, opened)
  local members, direct, gated = {}, nil, {}
  repeat
    members = redis.call('ZRANGE', K.ready(V), 0, (#gated > 0 and math.max(limit, PROMOTE_AT_LEAST) or limit) - 1)
    direct, gated = split(members, opened)
    if #gated > 0 then
      enter_gates(V, K.ready(V), gated, redis.call('ZMSCORE', K.ready(V), unpack(gated)))
    end
    entered = entered + #gated
  until #gated == 0 or entered > MOST_ENTERED
  return direct, #members - #gated
end

-- Return the domains of a gate that it allows now, at most `limit`; those that have another gate by now become ready.
local function allowed_ones(V, gate, limit)
  local allowed = allowance(gate.state, limit)
  local members = allowed > 0 and redis.call('ZRANGE', gate.key, 0, math.min(allowed, limit) - 1) or {}
  local gate_of, domains, others = gates.of(members), {}, {}
  for i = 1, #members do
    local list = gate_of[members[i]] == gate.name and domains or others
    list[#list + 1] = members[i]
  end
  if #others > 0 then
    local scores, args = redis.call('ZMSCORE', gate.key, unpack(others)), {}
    for i = 1, #others do
      args[2 * i - 1], args[2 * i] = scores[i], others[i]
    end
    redis.call('ZADD', K.ready(V), unpack(args))
    redis.call('ZREM', gate.key, unpack(others))
  end
  return domains
end

-- Return the gates of a round with their states.
local function open_gates(V, opened)
  local names, list = {}, {}
  for name in pairs(opened) do
    names[#names + 1] = name
  end
  table.sort(names)
  local states = #names > 0 and gates.states(V, names) or {}
  for i, name in ipairs(names) do
    list[i] = { name = name, state = states[i], key = K.at_gate(V, name) }
  end
  return list
end

-- Add the domains of one index, `r` or a gate, to the sources of a round.
local function add_source(sources, key, domains, o, gate)
  local n = #domains
  if n > 0 then
    local ends = redis.call('ZMSCORE', key, domains[1], domains[n])
    sources[#sources + 1] = { key = key, domains = domains, o = o, gate = gate, first = tonumber(ends[1]),
      is_equal = priority_of(ends[1]) == priority_of(ends[2]) }
  end
end

-- Return sources of one domain each, in their order: the priorities in the given ones differ.
local function singles_of(sources)
  local singles = {}
  for _, source in ipairs(sources) do
    local scores = redis.call('ZMSCORE', source.key, unpack(source.domains))
    for i, domain in ipairs(source.domains) do
      singles[#singles + 1] = { domains = { domain }, o = { source.o[i] }, gate = source.gate,
        first = tonumber(scores[i]) }
    end
  end
  return singles
end

-- Add the domains of sources to a round, best first. Scores are expensive to read: if all priorities are equal, each
-- source is one block.
local function merge(round, sources)
  local are_equal = true
  for _, source in ipairs(sources) do
    are_equal = are_equal and source.is_equal and priority_of(source.first) == priority_of(sources[1].first)
  end
  if not are_equal then
    sources = singles_of(sources)
  end
  table.sort(sources, function(a, b) return a.first < b.first end)
  for _, source in ipairs(sources) do
    for i, domain in ipairs(source.domains) do
      local n = #round.domains + 1
      round.domains[n], round.o[n], round.gate_of[domain] = domain, source.o[i], source.gate
      gates.paid[domain] = source.gate and source.gate.name
    end
    add_claim(round, priority_of(source.first), #source.domains)
  end
end

-- Return a round of the domains that are next, at most `limit` of each gate and of those without one; nil if none of
-- them has a gate. `due`: the first members of `w` that are due.
function gates.round(V, limit, due)
  local opened, ready = {}, redis.call('ZRANGE', K.ready(V), 0, limit - 1)
  split(due, opened)
  split(ready, opened)
  if not next(opened) then
    return nil
  end
  ready_due(V, due, opened)
  local round, sources = round_of(false, {}, {}), {}
  local direct, behind = ready_ones(V, limit, opened)
  local before = #direct
  add_source(sources, K.ready(V), direct, tags_of(V, K.ready(V), direct), nil)
  round.behind, round.gates, round.gate_of = behind + #direct - before, open_gates(V, opened), {}
  for _, gate in ipairs(round.gates) do
    local domains = allowed_ones(V, gate, limit)
    add_source(sources, gate.key, domains, tags_of(V, gate.key, domains), gate)
  end
  merge(round, sources)
  return round
end

-- Return what both a domain, which has `allowed`, and its gate allow; 0: it keeps waiting in the gate.
function gates.limit(round, domain, allowed, enough)
  local gate = round.gate_of[domain]
  return gate and math.min(allowed, (allowance(gate.state, enough))) or allowed
end

-- Let the gate of a domain, if it has one, account for grants.
function gates.pay(round, domain, amount)
  local gate = round.gate_of[domain]
  if gate then
    grant(gate.state, amount, 1)
    redis.call('ZADD', K.spent, 'NX', int(now + RECHECK_STATE_MS), gate.state.key)
  end
end

-- Apply a change of an index to domains, given as a flat list of `step` values each with the domain last: those with a
-- gate are in the gate, the others in `r`.
local function apply(V, round, command, values, step)
  local args_of = {}
  for i = step, #values, step do
    local gate = round.gate_of[values[i]]
    local key = gate and gate.key or K.ready(V)
    local args = args_of[key] or {}
    local n = #args
    args[n + 1], args[n + step], args_of[key] = values[i - step + 1], values[i], args
  end
  for key, args in pairs(args_of) do
    redis.call(command, key, unpack(args))
  end
end

-- Put the gates of a round where they belong: in `r` if they allow more now, else in `w` until they do.
local function place_gates(V, round)
  local ready, waiting, open = {}, {}, {}
  for _, gate in ipairs(round.gates) do
    local first = redis.call('ZRANGE', gate.key, 0, 0, 'WITHSCORES')
    local allowed, later = allowance(gate.state, 1)
    if not first[1] then
      redis.call('SREM', K.gates(V), gate.name)
      redis.call('ZREM', K.ready(V), gate.name)
      redis.call('ZREM', K.waiting(V), gate.name)
    elseif allowed > 0 then
      ready[#ready + 1], ready[#ready + 2], open[#open + 1] = first[2], gate.name, gate.name
      redis.call('ZREM', K.waiting(V), gate.name)
    else
      waiting[#waiting + 1], waiting[#waiting + 2], open[#open + 1] = int(later), gate.name, gate.name
      redis.call('ZREM', K.ready(V), gate.name)
    end
  end
  if #ready > 0 then
    redis.call('ZADD', K.ready(V), unpack(ready))
  end
  if #waiting > 0 then
    redis.call('ZADD', K.waiting(V), unpack(waiting))
  end
  if #open > 0 then
    redis.call('SADD', K.gates(V), unpack(open))
  end
end

-- Put the domains of a round where they belong, and its gates. Return that there were any.
function gates.finish(V, round)
  apply(V, round, 'ZREM', round.gone, 1)
  apply(V, round, 'ZADD', round.ready, 2)
  if #round.waiting > 0 then
    redis.call('ZADD', K.waiting(V), unpack(round.waiting))
  end
  place_gates(V, round)
  return true
end
end
