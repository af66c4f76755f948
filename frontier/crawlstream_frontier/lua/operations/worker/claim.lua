#!lua flags=allow-oom
-- claim: claim the robots.txt of an origin for one process to fetch.
-- Guarantee: one of the processes that have read the same note may fetch. A full Redis allows it too:
--   pages wait for the answer, and Redis gets room only when pages end.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 origin, 2 the note that was read, '' for none, 3 ms after which the fetch counts as lost.
-- Returns: 1 if this call has claimed it, else 0.
-- Cost: two commands.
--- include: present
local key = K.robots(ARGV[1])
if (redis.call('GET', key) or '') ~= ARGV[2] then
  return 0
end
redis.call('SET', key, 'fetching', 'PX', ARGV[3])
return 1
