#!lua flags=allow-oom
-- pools: copy the proxy pools from ZooKeeper, fenced by their version.
-- Guarantee: an older table never replaces a newer one; the table of another node (made anew) only
--   when it is adopted, or in place of one that never was in ZooKeeper (version 0).
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 czxid; 2 mzxid; 3 the whole table, packed; 4 '1': adopt it.
-- Returns: 1 copied, 0 refused, 2 known already.
-- Cost: one HSET.
--- include: keys

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
redis.call('HSET', K.proxies, 'czxid', czxid, 'mzxid', mzxid, 'table', blob)
return 1
