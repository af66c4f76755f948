#!lua flags=allow-oom
-- claim: one process says that it fetches the robots.txt of an origin.
-- Guarantee: of those that have seen the same note one may fetch. A full Redis allows it too: pages
--   wait for the answer, and only their ends make room.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 origin, 2 the note that was seen, '' for none, 3 ms until the fetch is taken for lost.
-- Returns: 1 if it is claimed now, else 0.
-- Cost: two commands.
--- include: present
local key = K.robots(ARGV[1])
if (redis.call('GET', key) or '') ~= ARGV[2] then
  return 0
end
redis.call('SET', key, 'fetching', 'PX', ARGV[3])
return 1
