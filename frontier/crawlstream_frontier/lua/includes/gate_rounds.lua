-- Rounds of a view whose domains may have gates (see `gates`): their candidates, and what becomes of them.
-- Guarantee: a domain with a gate is served from its gate only, best and first come first; it costs as much as any
--   other, however many domains wait there, because a turn takes no more of them than the gate allows.
-- Part of `rounds`: a function that is called once, when a call meets a domain with a gate. Cost: up to five more
--   commands for each gate of a round.
local MOST_ENTERED, entered = 512, 0
local paid = gates.paid
local of_gates = { after = false, of = false, limit = false, pay = false, finish = false }

-- Split members of an index, which have these gates, into domains without a gate and those with one; return both lists,
-- and the gates of the latter. Note all gates in `opened`: `index` if they are members themselves, else false.
local function split(members, gate_of, opened, index)
  local direct, gated, gate_of_gated = {}, {}, {}
  for i = 1, #members do
    local member, gate = members[i], gate_of[i]
    if not gate then
      direct[#direct + 1] = member
    elseif gate == member then
      opened[gate] = index
    else
      opened[gate] = opened[gate] or false
      gated[#gated + 1], gate_of_gated[#gated + 1] = member, gate
    end
  end
  return direct, gated, gate_of_gated
end

-- Let domains wait in these gates, with these scores; remove them from an index.
local function enter_gates(V, index, gated, gate_of, scores)
  local args_of = {}
  for i = 1, #gated do
    local gate = gate_of[i]
    local args = args_of[gate] or {}
    local n = #args
    args[n + 1], args[n + 2], args_of[gate] = scores[i], gated[i], args
  end
  for gate, args in pairs(args_of) do
    redis.call('ZADD', K.at_gate(V, gate), 'NX', unpack(args))
  end
  redis.call('ZREM', index, unpack(gated))
end

-- Let due domains wait in these gates.
local function enter_due(V, gated, gate_of)
  local before, o = #gated, tags_of(V, K.waiting(V), gated)
  if #gated == 0 then
    return
  elseif #gated < before then
    gate_of = gates.of(gated)
  end
  local ranks, scores = {}, {}
  for i = 1, #gated do
    local top = top_of(V, gated[i], o[i])
    ranks[top] = ranks[top] or rank(top)
    scores[i] = ranks[top]
  end
  enter_gates(V, K.waiting(V), gated, gate_of, scores)
end

-- Make due domains without a gate ready.
local function ready_due(V, domains)
  local o = tags_of(V, K.waiting(V), domains)
  if #domains > 0 then
    promote(V, domains, o)
  end
end

-- Let those of the first ready members, which have these gates, wait in them, and look at other members in their place.
-- Return up to `limit` domains without a gate, and the number of ready members that are known now.
local function ready_ones(V, limit, members, gate_of, opened)
  while true do
    local direct, gated, gate_of_gated = split(members, gate_of, opened, 'r')
    if #gated > 0 then
      local scores = redis.call('ZMSCORE', K.ready(V), unpack(gated))
      enter_gates(V, K.ready(V), gated, gate_of_gated, scores)
    end
    entered = entered + #gated
    if #gated == 0 or entered > MOST_ENTERED then
      return direct, #members - #gated
    end
    members = redis.call('ZRANGE', K.ready(V), 0, math.max(limit, PROMOTE_AT_LEAST) - 1)
    gate_of = gates.of(members)
  end
end

-- Return the domains of a gate that it allows now, at most `limit`. Nothing waits in a gate that is not its own (see
-- `rules`).
local function allowed_ones(gate, limit)
  gate.left = allowance(gate.state)
  return gate.left > 0 and redis.call('ZRANGE', gate.key, 0, math.min(gate.left, limit) - 1) or {}
end

-- Return the gates of a round with their states.
local function open_gates(V, opened)
  local names, list = {}, {}
  for name in pairs(opened) do
    names[#names + 1] = name
  end
  table.sort(names)
  local states = gates.inside().states(V, names)
  for i, name in ipairs(names) do
    list[i] = { name = name, state = states[i], key = K.at_gate(V, name), index = opened[name], left = 0,
      granted = 0 }
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

-- Add the domains of a single source to a round, in their order.
local function add_only(round, source)
  round.domains, round.o, round.only_key = source.domains, source.o, source.key
  for i = 1, #source.domains do
    paid[source.domains[i]] = source.gate
  end
  if source.is_equal then
    add_claim(round, priority_of(source.first), #source.domains)
    return
  end
  for _, score in ipairs(redis.call('ZMSCORE', source.key, unpack(source.domains))) do
    add_claim(round, priority_of(score), 1)
  end
end

-- Add the domains of sources to a round, best first. Scores are expensive to read: if all priorities are equal, each
-- source is one block.
local function merge(round, sources)
  if #sources == 1 then
    return add_only(round, sources[1])
  end
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
      round.domains[n], round.o[n], paid[domain] = domain, source.o[i], source.gate
    end
    add_claim(round, priority_of(source.first), #source.domains)
  end
end

-- Return a round of the domains that are next, at most `limit` of each gate and of those without one, where the first
-- ready members of a view have these gates. `opened`: gates that were found in `w`.
function of_gates.of(V, limit, members, gate_of, opened)
  opened = opened or {}
  local direct, behind = ready_ones(V, limit, members, gate_of, opened)
  local round, sources, before = round_of(false, {}, {}), {}, #direct
  add_source(sources, K.ready(V), direct, tags_of(V, K.ready(V), direct), nil)
  round.behind, round.gates, round.gated = behind + #direct - before, open_gates(V, opened), of_gates
  for _, gate in ipairs(round.gates) do
    local members_of_gate = allowed_ones(gate, limit)
    add_source(sources, gate.key, members_of_gate, tags_of(V, gate.key, members_of_gate), gate)
  end
  merge(round, sources)
  return round
end

-- Return such a round after these due members of `w`, which have these gates, are ready or wait in their gates.
function of_gates.after(V, limit, due, gate_of)
  local opened = {}
  local direct, gated, gate_of_gated = split(due, gate_of, opened, 'w')
  ready_due(V, direct)
  enter_due(V, gated, gate_of_gated)
  local ready = redis.call('ZRANGE', K.ready(V), 0, limit - 1)
  return of_gates.of(V, limit, ready, gates.of(ready), opened)
end

-- Return what both a domain, which has `allowed`, and its gate allow; 0: it keeps waiting in the gate.
function of_gates.limit(domain, allowed)
  local gate = paid[domain]
  return gate and gate.left < allowed and gate.left or allowed
end

-- Note grants to a domain: `account` uses the allowance of its gate, if it has one.
function of_gates.pay(domain, amount)
  local gate = paid[domain]
  if gate then
    gate.left, gate.granted = gate.left - amount, gate.granted + amount
  end
end

-- Apply a change of an index to domains, given as a flat list of `step` values each with the domain last: those with a
-- gate are in the gate, the others in `r`.
local function apply(V, round, command, values, step)
  if round.only_key then
    if #values > 0 then
      redis.call(command, round.only_key, unpack(values))
    end
    return
  end
  local args_of = {}
  for i = step, #values, step do
    local gate = paid[values[i]]
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
  for _, gate in ipairs(round.gates) do
    local first = redis.call('ZRANGE', gate.key, 0, 0, 'WITHSCORES')
    local allowed, later = allowance(gate.state, 1)
    local index = first[1] and (allowed > 0 and 'r' or 'w')
    if index == 'r' then
      redis.call('ZADD', K.ready(V), first[2], gate.name)
    elseif index == 'w' then
      redis.call('ZADD', K.waiting(V), int(later), gate.name)
    end
    if index ~= 'r' and gate.index ~= 'w' then
      redis.call('ZREM', K.ready(V), gate.name)
    end
    if index ~= 'w' and gate.index ~= 'r' then
      redis.call('ZREM', K.waiting(V), gate.name)
    end
    if not index then
      redis.call('SREM', K.gates(V), gate.name)
    elseif not gate.index and redis.call('SADD', K.gates(V), gate.name) == 1 then
      redis.call('ZADD', gate.key, '0', PADDING)  -- Its compact form is searched from end to end.
      redis.call('ZREM', gate.key, PADDING)
    end
  end
end

-- Use the allowances of the gates of a round for its grants, and let `tend` look at their states.
local function account(round)
  for _, gate in ipairs(round.gates) do
    if gate.granted > 0 then
      grant(gate.state, gate.granted, gate.left)
      redis.call('ZADD', K.spent, 'NX', int(now + RECHECK_STATE_MS), gate.state.key)
    end
  end
end

-- Put the domains of a round where they belong, and its gates. Return that there were any.
function of_gates.finish(V, round)
  account(round)
  apply(V, round, 'ZREM', round.gone, 1)
  apply(V, round, 'ZADD', round.ready, 2)
  if #round.waiting > 0 then
    redis.call('ZADD', K.waiting(V), unpack(round.waiting))
  end
  place_gates(V, round)
  return true
end

function gates.rounds()
  return of_gates
end

return of_gates
