-- Rounds of a view whose domains may have gates (see `gates`): their candidates, and what becomes of them.
-- Guarantee: a domain with a gate is served from its gate only, best and first come first; it costs as much as any
--   other, however many domains wait there, because a turn takes no more of them than the gate allows.
-- Part of `lease`. Cost: up to five more commands for each gate of a round.
if gates then
local MOST_ENTERED, entered = 512, 0

-- Move domains that are ready into their gates, and note these and the gates that are ready. Return the other domains,
-- the scores of all, and the number of those that were moved.
local function enter_gates(V, members, opened)
  local domains, scores = {}, {}
  for i = 1, #members, 2 do
    domains[#domains + 1], scores[members[i]] = members[i], tonumber(members[i + 1])
  end
  local gate_of = gates.of(domains)
  local rest, arrived, args_of = {}, {}, {}
  for _, domain in ipairs(domains) do
    local gate = gate_of[domain]
    if string.sub(domain, 1, 1) == '=' then
      opened[domain] = true
    elseif gate then
      local args = args_of[gate] or {}
      local n = #args
      args[n + 1], args[n + 2], args_of[gate] = int(scores[domain]), domain, args
      arrived[#arrived + 1], opened[gate] = domain, true
    else
      rest[#rest + 1] = domain
    end
  end
  for gate, args in pairs(args_of) do
    redis.call('ZADD', K.at_gate(V, gate), 'NX', unpack(args))
  end
  if #arrived > 0 then
    redis.call('ZREM', K.ready(V), unpack(arrived))
  end
  return rest, scores, #arrived
end

-- Make due domains ready, or let them wait in their gates; return these gates, and those that are due.
local function ready_due(V, limit)
  local due = redis.call('ZRANGE', K.waiting(V), '-inf', int(now), 'BYSCORE', 'LIMIT', 0,
    math.max(2 * limit, PROMOTE_AT_LEAST))
  local opened, domains = {}, {}
  for _, member in ipairs(due) do
    if string.sub(member, 1, 1) == '=' then
      opened[member] = true
    else
      domains[#domains + 1] = member
    end
  end
  local o, gate_of = tags_of(V, K.waiting(V), domains), gates.of(domains)
  local direct, direct_o, args_of, arrived = {}, {}, {}, {}
  for i, domain in ipairs(domains) do
    local gate = gate_of[domain]
    if gate then
      local args = args_of[gate] or {}
      local n = #args
      args[n + 1], args[n + 2], args_of[gate] = rank(top_of(V, domain, o[i])), domain, args
      arrived[#arrived + 1], opened[gate] = domain, true
    else
      direct[#direct + 1], direct_o[#direct_o + 1] = domain, o[i]
    end
  end
  for gate, args in pairs(args_of) do
    redis.call('ZADD', K.at_gate(V, gate), 'NX', unpack(args))
  end
  if #arrived > 0 then
    redis.call('ZREM', K.waiting(V), unpack(arrived))
  end
  if #direct > 0 then
    promote(V, direct, direct_o)
  end
  return opened
end

-- Add the domains of a gate that it allows now, at most `limit`; those that have another gate by now become ready.
local function add_waiting(V, gate, limit, found)
  local allowed = allowance(gate.state, limit)
  local members = allowed > 0
    and redis.call('ZRANGE', K.at_gate(V, gate.name), 0, math.min(allowed, limit) - 1, 'WITHSCORES') or {}
  local domains, scores, args = {}, {}, {}
  for i = 1, #members, 2 do
    domains[#domains + 1], scores[members[i]] = members[i], tonumber(members[i + 1])
  end
  local gate_of = gates.of(domains)
  local others = {}
  for i = #domains, 1, -1 do
    if gate_of[domains[i]] ~= gate.name then
      local domain = table.remove(domains, i)
      args[#args + 1], args[#args + 2] = int(scores[domain]), domain
      others[#others + 1] = domain
    end
  end
  if #others > 0 then
    redis.call('ZADD', K.ready(V), unpack(args))
    redis.call('ZREM', K.at_gate(V, gate.name), unpack(others))
  end
  local o = tags_of(V, K.at_gate(V, gate.name), domains)
  for i, domain in ipairs(domains) do
    found[#found + 1] = { domain = domain, score = scores[domain], o = o[i], gate = gate }
  end
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

-- Return a round of the domains that are next, at most `limit` of each gate and of those without one.
function gates.candidates(V, limit)
  local opened = ready_due(V, limit)
  local members, arrived, domains, scores = nil, 0, nil, nil
  repeat
    -- Domains with a gate that have become ready: many at once, so that others need not wait for them.
    members = redis.call('ZRANGE', K.ready(V), 0, (arrived > 0 and math.max(limit, PROMOTE_AT_LEAST) or limit) - 1,
      'WITHSCORES')
    domains, scores, arrived = enter_gates(V, members, opened)
    entered = entered + arrived
  until arrived == 0 or entered > MOST_ENTERED
  local before = #domains
  local o, found = tags_of(V, K.ready(V), domains), {}
  for i, domain in ipairs(domains) do
    found[i] = { domain = domain, score = scores[domain], o = o[i] }
  end
  local round = round_of(false, {}, {})
  round.behind, round.gates, round.gate_of = #members / 2 + #domains - before, open_gates(V, opened), {}
  for _, gate in ipairs(round.gates) do
    add_waiting(V, gate, limit, found)
  end
  table.sort(found, function(a, b) return a.score < b.score end)
  for i, one in ipairs(found) do
    round.domains[i], round.o[i], round.gate_of[one.domain] = one.domain, one.o, one.gate
    gates.paid[one.domain] = one.gate and one.gate.name
    add_claim(round, priority_of(one.score), 1)
  end
  round.has_any = #members > 0 or #round.gates > 0
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
      ready[#ready + 1], ready[#ready + 2], open[#open + 1] = int(tonumber(first[2])), gate.name, gate.name
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

-- Put the domains of a round where they belong, and its gates. Return whether there were any.
function gates.finish(V, round)
  apply(V, round, 'ZREM', round.gone, 1)
  apply(V, round, 'ZADD', round.ready, 2)
  if #round.waiting > 0 then
    redis.call('ZADD', K.waiting(V), unpack(round.waiting))
  end
  place_gates(V, round)
  return round.has_any
end
end
