-- Gates: limits that several domains have in common, because they are on one machine.
-- Guarantee: a grant to a domain of a gate needs and uses an allowance of both; the lease names the gate that it
--   used, and its reports count there, whatever the table says by then. A gate only ever delays requests.
-- Gate `=<group>`: its rule is in `rules`, its throttle state in `t`, in the form of every other; it has no care.
-- `members` HASH host name -> gate of this name and of all names below it; the most specific counts.
-- `located` HASH domain without a named gate -> that of the address at which a worker has found it: a group's, by a
--   network, or `=@<address>`; the rule of all of the latter is `=@`. A lease names the gate that it used, and its
--   worker looks at the address before it connects: if the gate is another one, it gives the lease back with that one.
-- Domains that have to wait for their gate wait in it: `a:<V>:<gate>` ZSET, ranked as `r:<V>`. The gate is in their
--   place in `w:<V>`, due when its allowance is, or in `r:<V>` with the rank of its best domain. `gates:<V>` SET: the
--   gates with such domains.
-- Mark: `sites` of `m` ends with ` =` from the first table with groups on, permanently, as leases may name gates. The
--   numbers of labels that members have follow, the largest first, and the number of gates with a rule: `=3.2+1`; then
--   `@` if the addresses of domains count.
-- Needs: clock, views, throttle (which includes it). Cost: without groups none at all.
local gates = false

local member_labels = sites and string.match(sites, ' =([%d.]*)')

if member_labels then
gates = { paid = {} }  -- `paid`: the gate of each domain of a round (see `gate_rounds`).
local MOST_NAMES, MOST_LOCATED, GATE, ADDRESSES = 4000, 100000, 61, '=@'
local find, sub, byte = string.find, string.sub, string.byte
local locates = find(sites, '@', 1, true)
local sizes_of_members, starts, gate_above, paid_by, unloaded = {}, { 1 }, {}, {}, {}
for labels in string.gmatch(member_labels, '%d+') do
  sizes_of_members[#sizes_of_members + 1] = tonumber(labels)
end
local fewest_labels = sizes_of_members[#sizes_of_members] or FOREVER

-- Note where the labels of a name start; return their number.
local function labels_of(name)
  local all, at = 1, find(name, '.', 1, true)
  while at do
    all = all + 1
    starts[all] = at + 1
    at = find(name, '.', at + 1, true)
  end
  return all
end

-- Add the names above a domain that members may have, the longest first; `place` is that of the domain.
local function add_above(above, places, labels, domain, place)
  for i = 1, #sizes_of_members do
    local size = sizes_of_members[i]
    if size < labels then
      local n = #above + 1
      above[n], places[n] = sub(domain, starts[labels - size + 1]), place
    end
  end
end

-- Look up the gates of names that are not known yet. Names above domains recur.
local function know(names)
  local missing = {}
  for i = 1, #names do
    if gate_above[names[i]] == nil then
      gate_above[names[i]], missing[#missing + 1] = false, names[i]
    end
  end
  for from = 1, #missing, MOST_NAMES do
    local to = math.min(from + MOST_NAMES - 1, #missing)
    for i, gate in ipairs(redis.call('HMGET', K.members, unpack(missing, from, to))) do
      gate_above[missing[from + i - 1]] = gate
    end
  end
end

-- Add the gates of the other domains by their addresses.
local function add_located(domains, found)
  local names, places = {}, {}
  for i = 1, #domains do
    if not found[i] then
      names[#names + 1], places[#places + 1] = domains[i], i
    end
  end
  for j, gate in ipairs(#names > 0 and redis.call('HMGET', K.located, unpack(names)) or {}) do
    found[places[j]] = gate
  end
end

-- Return the gate of each of these domains, in their order: false where it has none; of a gate, itself. A list in Lua
-- costs as much as its look-ups: there is none but the answer, unless domains are longer than members.
function gates.of(domains)
  local found, above, places = redis.call('HMGET', K.members, unpack(domains)), nil, nil
  for i = 1, #domains do
    if not found[i] and byte(domains[i]) == GATE then
      found[i] = domains[i]
    end
    local labels = not found[i] and fewest_labels < FOREVER and labels_of(domains[i]) or 0
    if labels > fewest_labels then
      above, places = above or {}, places or {}
      add_above(above, places, labels, domains[i], i)
    end
  end
  if above then
    know(above)
    for i = 1, #above do
      found[places[i]] = found[places[i]] or gate_above[above[i]]
    end
  end
  if locates then
    add_located(domains, found)
  end
  return found
end

-- Return the names under which domains and gates have their rules: all addresses have one.
function gates.ruled_by(names)
  local ruled = {}
  for i = 1, #names do
    ruled[i] = sub(names[i], 1, 2) == ADDRESSES and ADDRESSES or names[i]
  end
  return ruled
end

-- Return the throttle states of gates, with their rules.
function gates.states(V, names)
  local states = load_states(keys_of(V, names))
  join_rules(gates.ruled_by(names), states, true)
  return states
end

-- Return the rule of a gate as it is stored.
function gates.rule_text(gate)
  return redis.call('HGET', K.rules, gates.ruled_by({ gate })[1]) or ''
end

-- Return the gate of this name that leases of a view have used: one for all of them.
local function used_gate(name, lot)
  local of_view = paid_by[lot.view] or {}
  local gate = of_view[name]
  if not gate then
    gate = { domain = name, lot = lot }
    paid_by[lot.view], of_view[name], unloaded[#unloaded + 1] = of_view, gate, gate
  end
  return gate
end

-- Split the domain of a lease from the gate that it used.
function gates.note_paid(hold)
  local at = find(hold.domain, '=', 1, true)
  if at then
    hold.gate = used_gate(sub(hold.domain, at), hold.lot)
    hold.domain = sub(hold.domain, 1, at - 1)
  end
end

-- Add their throttle states to the gates that leases have used.
function gates.join()
  local names_of = {}
  for _, gate in ipairs(unloaded) do
    local V = gate.lot.view
    local names = names_of[V] or {}
    names[#names + 1], names_of[V] = gate.domain, names
  end
  for V, names in pairs(names_of) do
    for i, state in ipairs(gates.states(V, names)) do
      paid_by[V][names[i]].state = state
    end
  end
  unloaded = {}
end

-- Rank a domain that waits in its gate by a better priority; the gate has the rank of its best domain.
function gates.raise(V, domain, score)
  local gate = gates.of({ domain })[1]
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
  for i, domain in ipairs(domains) do
    local gate = gate_of[i]
    local key = gate and K.at_gate(V, gate)
    if gate and redis.call('ZREM', key, domain) == 1 and redis.call('EXISTS', key) == 0 then
      close(V, gate)
    end
  end
end

-- Note the gate of a domain by its address; '': it has none. It no longer waits in the one that it had.
function gates.locate(domain, gate)
  local known = gates.of({ domain })[1]
  if known == gate or not known and gate == '' then
    return
  elseif gate == '' then
    redis.call('HDEL', K.located, domain)
  else
    if not known and redis.call('HLEN', K.located) >= MOST_LOCATED then
      redis.call('HDEL', K.located, redis.call('HRANDFIELD', K.located))
    end
    redis.call('HSET', K.located, domain, gate)
  end
  for _, S in ipairs(known and redis.call('SMEMBERS', K.spiders) or {}) do
    for _, V in ipairs(views_of(S)) do
      local key = K.at_gate(V, known)
      if redis.call('ZREM', key, domain) == 1 then
        redis.call('ZADD', K.waiting(V), int(now), domain)
        if redis.call('EXISTS', key) == 0 then
          close(V, known)
        end
      end
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
