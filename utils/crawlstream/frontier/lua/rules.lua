#!lua flags=allow-oom
-- rules: copy the throttle table from ZooKeeper, fenced by its version.
-- Guarantee: an older table never replaces a newer one; the table of another node (made anew) only
--   when it is adopted. From the next lease on no grant is made by the former rules.
-- KEYS: 1 prefix of the partition.
-- ARGV: 1 packed {czxid, mzxid, adopt, default, {domain, rule …}, the whole table}
--   rule = "<hits> <window_ms> <moderated> <concurrency>", hits 0 holds the domain back.
-- Returns: 1 copied, 0 refused, 2 known already.
-- Cost: O(rules); domains whose rule changed are looked at again at once.
--- include: clock

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
redis.call('HSET', P .. 'rules', '*', default)
for i = 1, #rules, 2 do
  redis.call('HSET', P .. 'rules', rules[i], rules[i + 1])
  if before[rules[i]] ~= rules[i + 1] then
    changed[#changed + 1] = rules[i]
  end
  before[rules[i]] = nil
end
local default_changed = before['*'] ~= default
before['*'] = nil
for domain in pairs(before) do
  changed[#changed + 1] = domain
end

-- Look at a domain again: parked or waiting, it is due now, and `lease` decides by the new rule.
local function look_again(S, domain)
  if redis.call('SREM', P .. 'p:' .. S, domain) == 1 then
    redis.call('ZADD', P .. 'w:' .. S, int(now), domain)
  else
    redis.call('ZADD', P .. 'w:' .. S, 'XX', 'LT', int(now), domain)
  end
end

for _, S in ipairs(redis.call('SMEMBERS', P .. 'spiders')) do
  local domains = changed
  if default_changed then
    domains = redis.call('ZRANGE', P .. 'w:' .. S, 0, -1)
    for _, domain in ipairs(redis.call('SMEMBERS', P .. 'p:' .. S)) do
      domains[#domains + 1] = domain
    end
  end
  for _, domain in ipairs(domains) do
    look_again(S, domain)
  end
  local asleep = redis.call('ZPOPMIN', P .. 'z:' .. S, 1000)
  for i = 1, #asleep, 2 do
    redis.call('PUBLISH', P .. 'wake:' .. asleep[i], '1')
  end
end
redis.call('SET', P .. 'table', blob)
redis.call('HSET', P .. 'm', 'czxid', czxid, 'mzxid', mzxid)
save_clock()
return 1
