-- Operations on gates themselves: their states, their use by leases, and rare changes of domains in them (see `gates`).
-- Part of `gates`: a function that is called once, when a call meets a gate.
local ADDRESSES = '=@'
local inside = { states = false, rule_text = false, ruled_by = false, note_used = false, join = false, changes = false }
local used, unloaded = {}, {}

-- Return the names under which domains and gates have their rules: all addresses have one.
function inside.ruled_by(names)
  local ruled = {}
  for i = 1, #names do
    ruled[i] = string.sub(names[i], 1, 2) == ADDRESSES and ADDRESSES or names[i]
  end
  return ruled
end

-- Return the throttle states of gates, with their rules.
function inside.states(V, names)
  local states = load_states(keys_of(V, names))
  join_rules(inside.ruled_by(names), states, true)
  return states
end

-- Return the rule of a gate as it is stored.
function inside.rule_text(gate)
  return redis.call('HGET', K.rules, inside.ruled_by({ gate })[1]) or ''
end

-- Split the domain of a lease from the gate that it used, at this place. Leases of a view share their gates.
function inside.note_used(hold, at)
  local V, name = hold.lot.view, string.sub(hold.domain, at)
  local of_view = used[V] or {}
  local gate = of_view[name]
  if not gate then
    gate = { domain = name, lot = hold.lot }
    used[V], of_view[name], unloaded[#unloaded + 1] = of_view, gate, gate
  end
  hold.domain, hold.gate, gates.used = string.sub(hold.domain, 1, at - 1), gate, true
end

-- Add their throttle states to the gates that leases have used.
function inside.join()
  local names_of = {}
  for _, gate in ipairs(unloaded) do
    local names = names_of[gate.lot.view] or {}
    names[#names + 1], names_of[gate.lot.view] = gate.domain, names
  end
  for V, names in pairs(names_of) do
    for i, state in ipairs(inside.states(V, names)) do
      used[V][names[i]].state = state
    end
  end
  unloaded = {}
end

inside.changes =
--- function: gate_changes

function gates.inside()
  return inside
end

return inside
