#!lua flags=allow-oom
-- note: store the robots.txt of an origin, or the time until which a fetch of it is not repeated.
-- Guarantee: written also in a full Redis: pages wait for it, and Redis gets room only when pages end.
--   All copies of robots.txt share a part of `maxmemory`, half of the part above the crowded level.
--   When it is used up, the oldest copies are deleted, and fetched again when needed. The newest stays.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 origin, 2 the note, 3 its time to live in ms, 4 '1' for a copy of the host's answer.
-- `robots` LIST "<bytes> <origin>" of the copies, oldest first; `robots_bytes` their sum. Without a
--   `maxmemory` nothing is counted. A replaced or expired copy counts until it is the oldest.
-- Returns: 1.
-- Cost: INFO and about six commands, two more per deleted copy: one, or about 2 000 small ones for a large one.
--- include: present
--- include: memory
local COPIES_SHARE, OVERHEAD = 0.05, 150
local origin, note, ttl = ARGV[1], ARGV[2], ARGV[3]
local list, sum = K.robots_copies, K.robots_bytes
local _, limit = memory()

-- Delete the oldest copies until `size` more bytes have room; return the size of the others.
local function make_room(size)
  local taken = tonumber(redis.call('GET', sum) or 0)
  while taken + size > COPIES_SHARE * limit do
    local oldest = redis.call('LPOP', list)
    if not oldest then
      return 0
    end
    local bytes, of = string.match(oldest, '^(%d+) (.*)$')
    redis.call('UNLINK', K.robots(of))
    taken = taken - bytes
  end
  return taken
end

if ARGV[4] == '1' and limit > 0 then
  local size = OVERHEAD + #note + 2 * #origin
  local taken = make_room(size) + size
  redis.call('RPUSH', list, string.format('%d %s', size, origin))
  redis.call('PEXPIRE', list, ttl)
  redis.call('SET', sum, string.format('%d', taken), 'PX', ttl)
end
redis.call('SET', K.robots(origin), note, 'PX', ttl)
return 1
