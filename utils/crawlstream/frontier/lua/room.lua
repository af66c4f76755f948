#!lua flags=no-writes
-- room: how many links are spilled, and whether they may come back.
-- Guarantee: reads totals and lengths, never entries.
-- KEYS: 1 prefix of all keys.
-- Returns: packed {spilled, may they come back}
-- Cost: O(spiders).
--- include: memory
local P = KEYS[1]
local totals = redis.call('HMGET', P .. 'totals', 'spilled', 'queued')

-- Whether anything waits whose rule allows a request; one field of the index is not a domain.
local function is_busy()
  if tonumber(totals[2] or 0) == 0 then
    return false
  end
  for _, S in ipairs(redis.call('SMEMBERS', P .. 'spiders')) do
    if redis.call('HLEN', P .. 'o:' .. S) - 1 > redis.call('SCARD', P .. 'p:' .. S) then
      return true
    end
  end
  return false
end

local used, limit = memory()
return cmsgpack.pack({ tonumber(totals[1] or 0), is_roomy(used, limit, is_busy()) })
