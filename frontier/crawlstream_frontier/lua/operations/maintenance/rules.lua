#!lua flags=allow-oom
-- rules: copy the throttle table from ZooKeeper, fenced by its version.
-- Guarantee: an older table never replaces a newer one; the table of another (recreated) node only
--   when it is adopted. From the next lease on no grant is made by the former rules. After the first
--   table that splits a domain into sites, every exchange returns the version of the map by which
--   the worker must look up the site of its new leases; `sites` in `m` is never removed, because entries
--   may still wait under the name of a former site; it ends with ` =` from the first table with groups on, see
--   `gates`. A partition whose work is moved away gets no rules (see `withdraw`).
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {czxid, mzxid, adopt, default, {domain, rule …}, the whole table, does it split a
--   domain into sites, {host name, gate …}, are there groups, the networks that gates of addresses depend on|''}
--   rule = "<hits> <window_ms> <moderated> <concurrency>[ <paused until, epoch s>[ <gentle and render>]]", see
--   `throttle`; hits 0 blocks the domain.
-- Returns: 1 copied, 0 refused, 2 known already.
-- Cost: O(rules); domains whose rule changed are checked again at once. If all may have changed
--   (a new default), or too many, `revise` checks them in steps.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands

local LOOKS_AT_ONCE = 1000
local czxid, mzxid, adopt, default, rules, blob, parts, members, has_groups, places = unpack(cmsgpack.unpack(ARGV[1]))
local known = redis.call('HMGET', K.meta, 'czxid', 'mzxid', 'moving')
if known[3] then
  return 2
end
if known[2] and not adopt then
  if known[1] ~= czxid or tonumber(known[2]) > tonumber(mzxid) then
    return 0
  end
  if known[2] == mzxid then
    return 2
  end
end

-- Entries under the name of a former site obey the rule above it, until their turn comes and a
-- worker moves them.
local function keep_former(domain, now_rules)
  local above = domain
  repeat
    above = string.match(above, '%.(.+)$')
  until not above or now_rules[above]
  for _, S in ipairs(above and redis.call('SMEMBERS', K.spiders) or {}) do
    if redis.call('HEXISTS', K.tags(S), domain) == 1 then
      redis.call('HSET', K.rules, domain, now_rules[above])
      return
    end
  end
end

local before = {}
local all = redis.call('HGETALL', K.rules)
for i = 1, #all, 2 do
  before[all[i]] = all[i + 1]
end
local changed = {}
redis.call('DEL', K.rules)
redis.call('HSET', K.rules, DEFAULT_RULE, default)
pad(K.rules)
pad(K.states)
local ruled, ruled_gates = {}, 0

local function is_gate(name)
  return string.sub(name, 1, 1) == '='
end

for i = 1, #rules, 2 do
  ruled[rules[i]] = rules[i + 1]
  redis.call('HSET', K.rules, rules[i], rules[i + 1])
  if before[rules[i]] ~= rules[i + 1] then
    changed[#changed + 1] = rules[i]
  end
  before[rules[i]] = nil
  ruled_gates = ruled_gates + (is_gate(rules[i]) and 1 or 0)
end
local is_default_new = before[DEFAULT_RULE] ~= default
before[DEFAULT_RULE], before[PAD] = nil, nil
for domain in pairs(before) do
  changed[#changed + 1] = domain
  if sites then
    keep_former(domain, ruled)
  end
end

-- Forget the latency of domains whose rules are no longer gentle.
local function forget_latencies(spiders)
  if is_default_new and not table_rule_of(DEFAULT_RULE).gentle then
    redis.call('UNLINK', K.latency)
    return
  end
  for _, domain in ipairs(changed) do
    for _, S in ipairs(table_rule_of(domain).gentle and {} or spiders) do
      for _, V in ipairs(views_of(S)) do
        gentle_rules().forget(key_of(V, domain))
      end
    end
  end
end

local spiders = redis.call('SMEMBERS', K.spiders)

-- Return the end of `sites`: the numbers of labels that members have, the largest first, the number of gates, and `@`
-- if addresses count.
local function member_sizes()
  local sizes, is_there = {}, {}
  for i = 1, #members, 2 do
    local labels = select(2, string.gsub(members[i], '%.', '')) + 1
    if not is_there[labels] then
      sizes[#sizes + 1], is_there[labels] = labels, true
    end
  end
  table.sort(sizes, function(a, b) return a > b end)
  return ' =' .. table.concat(sizes, '.') .. '+' .. ruled_gates .. (places ~= '' and '@' or '')
end

-- Return the gate that the members of a former table have for a name.
local function gate_by(former, name)
  local above = name
  while above and not former[above] do
    above = string.match(above, '%.(.+)$')
  end
  return former[above or PAD]
end

-- Forget which gates the addresses of domains have, if the networks change by which they have them; return true then.
local function forget_places()
  local text = places ~= '' and redis.sha1hex(places) or ''
  if (redis.call('HGET', K.meta, 'places') or '') == text then
    return false
  end
  redis.call('HSET', K.meta, 'places', text)
  redis.call('UNLINK', K.located)
  return true
end

-- Replace the members of gates; domains that wait in a gate whose members change are looked at again: leases do not
-- look up whether a domain belongs to the gate in which it waits.
local function copy_members()
  local all_before, is_changed, former, gone = redis.call('HGETALL', K.members), {}, {}, {}
  for i = 1, #all_before, 2 do
    former[all_before[i]], gone[all_before[i]] = all_before[i + 1], all_before[i + 1]
  end
  former[PAD], gone[PAD] = nil, nil
  redis.call('DEL', K.members)
  for i = 1, #members, 2 do
    local name, gate = members[i], members[i + 1]
    redis.call('HSET', K.members, name, gate)
    local before_it = gate_by(former, name)
    if before_it ~= gate then
      is_changed[gate], is_changed[before_it or gate] = true, true
    end
    gone[name] = nil
  end
  for _, gate in pairs(gone) do
    is_changed[gate] = true
  end
  if has_groups then
    pad(K.members)
  end
  local is_moved = forget_places()
  for _, S in ipairs(gates and spiders or {}) do
    for _, V in ipairs(views_of(S)) do
      for _, gate in ipairs(redis.call('SMEMBERS', K.gates(V))) do
        if is_moved or is_changed[gate] then
          gates.inside().changes().drain(V, gate)
        end
      end
    end
  end
end

if gates or has_groups then
  copy_members()
end
if redis.call('EXISTS', K.latency) == 1 then
  forget_latencies(spiders)
end
local is_too_much = is_default_new or #changed * #spiders > LOOKS_AT_ONCE
for _, S in ipairs(spiders) do
  for _, V in ipairs(views_of(S)) do
    if is_too_much then
      -- A view that is being filled is checked again as a whole after that.
      local at = redis.call('HGET', K.revise, V) or ''
      redis.call('HSET', K.revise, V, string.sub(at, 1, 1) == 'o' and at or 'p 0')
    else
      for _, domain in ipairs(changed) do
        look_again(V, domain)
        for _, gate in ipairs(domain == '=@' and redis.call('SMEMBERS', K.gates(V)) or {}) do
          look_again(V, gate)
        end
      end
    end
    wake(V, 1000)
  end
end
redis.call('SET', K.table, blob)
redis.call('HSET', K.meta, 'czxid', czxid, 'mzxid', mzxid)
if sites or parts or has_groups then
  redis.call('HSET', K.meta, 'sites', czxid .. ' ' .. mzxid .. ((gates or has_groups) and member_sizes() or ''))
end
finish()
return 1
