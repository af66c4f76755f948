-- Gates: limits that several domains have in common, because they are on one machine.
-- Guarantee: a grant to a domain of a gate needs and uses an allowance of both; the lease names the gate that it
--   used, and its reports count there, whatever the table says by then. A gate only ever delays requests.
-- Gate `=<group>`: its rule is in `rules`, its throttle state in `t`, in the form of every other; it has no care.
-- `members` HASH host name -> gate of this name and of all names below it; the most specific counts.
-- Domains that have to wait for their gate wait in it: `a:<V>:<gate>` ZSET, ranked as `r:<V>`. The gate is in their
--   place in `w:<V>`, due when its allowance is, or in `r:<V>` with the rank of its best domain. `gates:<V>` SET: the
--   gates with such domains.
-- Mark: `sites` of `m` ends with ` =` from the first table with groups on, permanently, as leases may name gates. The
--   numbers of labels that members have follow, the largest first: `=3.2`.
-- Needs: clock, views, throttle (which includes it). Cost: without groups none at all.
local gates = false

local member_labels = sites and string.match(sites, ' =([%d.]*)$')

if member_labels then
gates = { paid = {} }
local MOST_NAMES, GATE_SIGN = 4000, 61
local gate_cache, sizes_of_members = {}, {}
for labels in string.gmatch(member_labels, '%d+') do
  sizes_of_members[#sizes_of_members + 1] = tonumber(labels)
end

-- Add the names that a domain may be a member by, the longest first: itself or one above, with as many labels as some
-- member has.
local function add_names(domain, names, domains)
  local starts, at = { 1 }, 1
  repeat
    at = string.find(domain, '.', at, true)
    if at then
      at = at + 1
      starts[#starts + 1] = at
    end
  until not at
  for i = 1, #sizes_of_members do
    local labels = sizes_of_members[i]
    if labels <= #starts then
      local n = #names + 1
      names[n], domains[n] = labels == #starts and domain or string.sub(domain, starts[#starts - labels + 1]), domain
    end
  end
end

local function look_up(names, domains)
  local found = redis.call('HMGET', K.members, unpack(names))
  for i = 1, #names do
    gate_cache[domains[i]] = gate_cache[domains[i]] or found[i] or false
  end
end

-- Return the gate of each of these domains, false where it has none, nil for a gate: by domain.
function gates.of(domains)
  local names, domain_of_name = {}, {}
  for i = 1, #domains do
    local domain = domains[i]
    if gate_cache[domain] == nil and string.byte(domain) ~= GATE_SIGN then
      gate_cache[domain] = false
      add_names(domain, names, domain_of_name)
      if #names > MOST_NAMES then
        look_up(names, domain_of_name)
        names, domain_of_name = {}, {}
      end
    end
  end
  if #names > 0 then
    look_up(names, domain_of_name)
  end
  return gate_cache
end

-- Return the throttle states of gates, with their rules.
function gates.states(V, names)
  local states = load_states(keys_of(V, names))
  join_rules(names, states)
  return states
end

-- Return the rule of a gate as it is stored.
function gates.rule_text(gate)
  return redis.call('HGET', K.rules, gate) or ''
end

-- Split the domain of a lease from the gate that it used.
function gates.note_paid(hold)
  local at = string.find(hold.domain, '=', 1, true)
  if at then
    hold.gate = { domain = string.sub(hold.domain, at), lot = hold.lot }
    hold.domain = string.sub(hold.domain, 1, at - 1)
  end
end

-- Add the throttle states of their gates to leases of one worker.
function gates.join(holds)
  local names, place = {}, {}
  for i = 1, #holds do
    local gate = holds[i].gate
    if gate and not place[gate.domain] then
      names[#names + 1], place[gate.domain] = gate.domain, #names + 1
    end
  end
  if #names == 0 then
    return
  end
  local states = gates.states(holds[1].lot.view, names)
  for i = 1, #holds do
    local gate = holds[i].gate
    if gate then
      gate.state = states[place[gate.domain]]
    end
  end
end

-- Rank a domain that waits in its gate by a better priority; the gate has the rank of its best domain.
function gates.raise(V, domain, score)
  local gate = gates.of({ domain })[domain]
  if gate and redis.call('ZADD', K.at_gate(V, gate), 'XX', 'LT', 'CH', score, domain) == 1 then
    redis.call('ZADD', K.ready(V), 'XX', 'LT', score, gate)
  end
end

-- Remove an empty gate of a view from the indexes.
local function close(V, gate)
  redis.call('ZREM', K.waiting(V), gate)
  redis.call('ZREM', K.ready(V), gate)
  redis.call('SREM', K.gates(V), gate)
end

-- Remove domains without entries from their gates.
function gates.leave(V, domains)
  local gate_of = gates.of(domains)
  for _, domain in ipairs(domains) do
    local gate = gate_of[domain]
    local key = gate and K.at_gate(V, gate)
    if gate and redis.call('ZREM', key, domain) == 1 and redis.call('EXISTS', key) == 0 then
      close(V, gate)
    end
  end
end

-- Move the domains that wait in a gate of a view into `w`, all due: they may belong to another one now.
function gates.drain(V, gate)
  local AT_ONCE = 1000
  local key = K.at_gate(V, gate)
  repeat
    local found, args = redis.call('ZPOPMIN', key, AT_ONCE), {}
    for i = 1, #found, 2 do
      args[i], args[i + 1] = int(now), found[i]
    end
    if #args > 0 then
      redis.call('ZADD', K.waiting(V), 'LT', unpack(args))
    end
  until #found == 0
  close(V, gate)
end

-- Delete the gates of a view, and forget the domains that wait there.
function gates.drop(V)
  for _, gate in ipairs(redis.call('SMEMBERS', K.gates(V))) do
    redis.call('UNLINK', K.at_gate(V, gate))
  end
  redis.call('UNLINK', K.gates(V))
end
end
