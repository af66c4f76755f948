#!lua flags=allow-oom
-- note: what the robots.txt of an origin says, or when it may be asked for again.
-- Guarantee: it is written also in a full Redis: pages wait for it, and only their ends make room.
--   Copies of what hosts said have a share of `maxmemory` together, half of what is left when Redis is
--   crowded: beyond it the oldest go, to be fetched again by who needs them. The newest stays.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 origin, 2 the note, 3 its time to live in ms, 4 '1' for a copy of what the host said.
-- `robots` LIST "<bytes> <origin>" of the copies, oldest first; `robots_bytes` their sum. Without a
--   `maxmemory` nothing is counted. A copy that was replaced, or is over, counts until its turn comes.
-- Returns: 1.
-- Cost: INFO and about six commands, two more a copy that goes: one, or some 2 000 small for a large one.
--- include: present
--- include: memory
local COPIES_SHARE, OVERHEAD = 0.05, 150
local origin, note, ttl = ARGV[1], ARGV[2], ARGV[3]
local list, sum = K.robots_copies, K.robots_bytes
local _, limit = memory()

-- Let the oldest copies go until `size` bytes more have room; answers what the others have.
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
