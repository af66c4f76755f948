#!lua flags=allow-oom
-- rules: copy the throttle table from ZooKeeper, fenced by its version.
-- Guarantee: an older table never replaces a newer one; the table of another node (made anew) only
--   when it is adopted. From the next lease on no grant is made by the former rules.
-- KEYS: 1 prefix of the partition.
-- ARGV: 1 packed {czxid, mzxid, adopt, default, {domain, rule …}, the whole table}
--   rule = "<hits> <window_ms> <moderated> <concurrency>", hits 0 holds the domain back.
-- Returns: 1 copied, 0 refused, 2 known already.
-- Cost: O(rules); domains whose rule changed are looked at again at once. If that may be all of them
--   (a new default) or too many, `revise` does it in steps.
--- include: clock
--- include: ledger
--- include: throttle
--- include: bands

local LOOKS_AT_ONCE = 1000
local czxid, mzxid, adopt, default, rules, blob = unpack(cmsgpack.unpack(ARGV[1]))
local known = redis.call('HMGET', P .. 'm', 'czxid', 'mzxid')
if known[2] and not adopt then
  if known[1] ~= czxid or tonumber(known[2]) > tonumber(mzxid) then
    return 0
  end
  if known[2] == mzxid then
    return 2
  end
end

local before = {}
local all = redis.call('HGETALL', P .. 'rules')
for i = 1, #all, 2 do
  before[all[i]] = all[i + 1]
end
local changed = {}
redis.call('DEL', P .. 'rules')
redis.call('HSET', P .. 'rules', DEFAULT_RULE, default)
pad(P .. 'rules')
pad(P .. 't')
for i = 1, #rules, 2 do
  redis.call('HSET', P .. 'rules', rules[i], rules[i + 1])
  if before[rules[i]] ~= rules[i + 1] then
    changed[#changed + 1] = rules[i]
  end
  before[rules[i]] = nil
end
local is_default_new = before[DEFAULT_RULE] ~= default
before[DEFAULT_RULE], before[PAD] = nil, nil
for domain in pairs(before) do
  changed[#changed + 1] = domain
end

local spiders = redis.call('SMEMBERS', P .. 'spiders')
local is_too_much = is_default_new or #changed * #spiders > LOOKS_AT_ONCE
for _, S in ipairs(spiders) do
  if is_too_much then
    redis.call('HSET', P .. 'revise', S, 'p 0')
  else
    for _, domain in ipairs(changed) do
      look_again(S, domain)
    end
  end
  wake(S, 1000)
end
redis.call('SET', P .. 'table', blob)
redis.call('HSET', P .. 'm', 'czxid', czxid, 'mzxid', mzxid)
save_clock()
return 1
