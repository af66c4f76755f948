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
-- Needs: clock, views, throttle (which includes it). Cost: without groups none at all. With them, one field per domain
--   that is looked up; all functions but that of the look-up are made when a call meets a domain with a gate.
local gates = false

if sites and string.find(sites, ' =', 1, true) then
local fewest_labels, locates = string.match(sites, ' =[%d.]-(%d*)%+%d+(@?)$')
-- The table has room for its fields from the beginning: growing costs more than making it. `paid`: the gates of the
-- domains of a round (see `gate_rounds`).
gates = { of = false, further = false, inside = false, rounds = false, used = false, paid = {} }
local GATE = 61
local find, byte, fewest = string.find, string.byte, tonumber(fewest_labels) or FOREVER
locates = locates ~= ''

-- Return true if a name has more labels than the shortest member.
local function is_long(name)
  local at = fewest < FOREVER and 0
  for _ = 1, at and fewest or 0 do
    at = at and find(name, '.', at + 1, true)
  end
  return at
end

-- Return the gate of each of these domains, in their order: false where it has none; of a gate, itself. Return one of
-- these gates, too, if there are any.
function gates.of(domains)
  local found = #domains > 0 and redis.call('HMGET', K.members, unpack(domains)) or domains
  local any, others = nil, nil
  for i = 1, #domains do
    local domain = domains[i]
    if not found[i] and byte(domain) == GATE then
      found[i] = domain
    elseif not found[i] and (locates or is_long(domain)) then
      others = others or {}
      others[#others + 1] = i
    end
    any = found[i] or any
  end
  return found, others and gates.further()(domains, others, found) or any
end

-- Functions for domains that `members` does not name themselves.
gates.further =
--- function: gate_names

-- Operations on gates themselves.
gates.inside =
--- function: gate_states
end
