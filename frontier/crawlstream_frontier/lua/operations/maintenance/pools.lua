#!lua flags=allow-oom
-- pools: copy the proxy pools from ZooKeeper, fenced by their version.
-- Guarantee: an older table never replaces a newer one; the table of another (recreated) node only
--   when it is adopted, or in place of one that never was in ZooKeeper (version 0). Data about proxies
--   that the table no longer has is deleted.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 czxid; 2 mzxid; 3 the whole table, packed; 4 '1': adopt it; 5 ids of its
--   proxies, packed.
-- Returns: 1 copied, 0 refused, 2 known already.
-- Cost: one HSET, and O(proxies).
--- include: present
local DROPPED_AT_ONCE = 1000

local czxid, mzxid, blob, adopt = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
local known = redis.call('HMGET', K.proxies, 'czxid', 'mzxid')
if known[1] and known[1] ~= '0' and not adopt then
  if known[1] ~= czxid or tonumber(known[2]) > tonumber(mzxid) then
    return 0
  end
  if known[2] == mzxid then
    return 2
  end
end
local listed, dropped = {}, {}
for _, id in ipairs(cmsgpack.unpack(ARGV[5])) do
  listed[id] = true
end
for _, id in ipairs(redis.call('HKEYS', K.proxy_health)) do
  if not listed[id] then
    dropped[#dropped + 1] = id
  end
end
for i = 1, #dropped, DROPPED_AT_ONCE do
  redis.call('HDEL', K.proxy_health, unpack(dropped, i, math.min(i + DROPPED_AT_ONCE - 1, #dropped)))
end
redis.call('HSET', K.proxies, 'czxid', czxid, 'mzxid', mzxid, 'table', blob)
return 1
