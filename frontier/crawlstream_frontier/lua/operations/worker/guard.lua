#!lua
-- guard: replace the sketches of sites, each unless another one has been stored since it was read.
-- Guarantee: of two workers that have read the same sketch, one replaces it; the other gets the new one.
--   All sketches share 5 % of `maxmemory`, or 256 MiB without one. Above that, the sites that are known
--   longest are forgotten; the newest stays. A full Redis refuses this operation: sketches are hints.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 ms for which a sketch is kept, then of each site its domain, the serial of the sketch that was
--   read (4 bytes; '' for none) and its new sketch. Not packed: Lua reads each byte of each string.
-- `guards` LIST the domains, in the order in which they became known. One whose sketch has expired counts
--   until it is the first; one that became known again is there twice, and is forgotten at the first.
-- Returns: packed {answer …}: for each site '' if its sketch was replaced, else the stored one.
-- Cost: two commands a site; for a new one INFO and three more, two more for each that is forgotten.
--   A stored sketch is read as a whole only if it has to be returned.
--- include: present
--- include: memory
local SHARE, WITHOUT_LIMIT, SIZE = 0.05, 256 * 1024 * 1024, 2200
local FIRST_OF_SERIAL, LAST_OF_SERIAL = 20, 23
local ttl = ARGV[1]

-- Note a site that has no sketch, and forget those for which there is no room left.
local function enter(domain)
  local _, limit = memory()
  local room = (limit > 0 and SHARE * limit or WITHOUT_LIMIT) / SIZE
  local known = redis.call('RPUSH', K.guards, domain)
  redis.call('PEXPIRE', K.guards, ttl)
  while known > math.max(room, 1) do
    local oldest = redis.call('LPOP', K.guards)
    redis.call('UNLINK', K.guard(oldest))
    known = known - 1
  end
end

local answers = {}
for i = 2, #ARGV, 3 do
  local domain, serial, sketch = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local stored = redis.call('GETRANGE', K.guard(domain), FIRST_OF_SERIAL, LAST_OF_SERIAL)
  if stored == '' or stored == serial then
    if stored == '' then
      enter(domain)
    end
    redis.call('SET', K.guard(domain), sketch, 'PX', ttl)
    answers[#answers + 1] = ''
  else
    answers[#answers + 1] = redis.call('GET', K.guard(domain))
  end
end
return cmsgpack.pack(answers)
