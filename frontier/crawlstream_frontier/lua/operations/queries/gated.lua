#!lua flags=allow-oom
-- gated: return the states of gates, and how many domains wait in each.
-- Guarantee: one moment, no effect.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {names}
--   names {gate …}; `=@`: of the addresses, the one at which most domains wait, of some in each view
-- Returns: packed {state …} in the order of the gates
--   state {name, rule|'', unreported, concurrent, ms until its next request, domains that wait in it}; if spider types
--   or egress groups have limits of their own: the sums of all, and the longest time
-- Cost: O(gates x views); for addresses, O(MOST_SEEN x views).
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands

local ADDRESSES, MOST_SEEN = '=@', 100
local names = unpack(cmsgpack.unpack(ARGV[1]))
local found = {}

-- Return the gate of an address at which many domains wait.
local function fullest()
  local best, most = ADDRESSES, 0
  for _, S in ipairs(gates and redis.call('SMEMBERS', K.spiders) or {}) do
    for _, V in ipairs(views_of(S)) do
      for _, gate in ipairs(redis.call('SRANDMEMBER', K.gates(V), MOST_SEEN)) do
        local waiting = string.sub(gate, 1, 2) == ADDRESSES and redis.call('ZCARD', K.at_gate(V, gate)) or 0
        if waiting > most then
          best, most = gate, waiting
        end
      end
    end
  end
  return best
end

for i, name in ipairs(names) do
  if name == ADDRESSES then
    names[i] = fullest()
  end
  found[i] = { name, gates and rules_known and gates.inside().rule_text(name) or '', 0, 0, 0, 0 }
end

-- Add what a view has in its gates; views with common limits have common states.
local known = {}
local function add_view(V)
  for i, state in ipairs(gates.inside().states(V, names)) do
    local sum = found[i]
    sum[6] = sum[6] + redis.call('ZCARD', K.at_gate(V, names[i]))
    if not known[state] then
      known[state] = true
      local allowed, later = allowance(state)
      sum[3], sum[4] = sum[3] + state[UNREPORTED], sum[4] + state[CONCURRENT]
      sum[5] = math.max(sum[5], allowed > 0 and 0 or later - now)
    end
  end
end

for _, S in ipairs(gates and rules_known and #names > 0 and redis.call('SMEMBERS', K.spiders) or {}) do
  for _, V in ipairs(views_of(S)) do
    add_view(V)
  end
end
return cmsgpack.pack(found)
