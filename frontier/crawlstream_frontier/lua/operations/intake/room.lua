#!lua flags=allow-oom
-- room: return the number of spilled links, and whether they may come back.
-- Guarantee: reads totals and indexes, never entries; changes nothing but the clock.
-- KEYS: 1 prefix of all keys.
-- Returns: packed {spilled, may they come back}
-- Cost: O(spiders), three commands each.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: memory
local SOON_MS = 1000
local totals = redis.call('HMGET', K.totals, 'spilled', 'queued', 'delayed')

-- Return true if workers have work now or soon. Entries delayed for longer do not make room, and
-- spilled links of other crawls must not wait for them.
local function is_busy()
  if tonumber(totals[2] or 0) + tonumber(totals[3] or 0) <= 0 then
    return false
  end
  for _, S in ipairs(redis.call('SMEMBERS', K.spiders)) do
    for _, V in ipairs(views_of(S)) do
      local due = next_due_in(V)
      if due >= 0 and due <= SOON_MS then
        return true
      end
    end
  end
  return false
end

local used, limit = memory()
save_clock()
return cmsgpack.pack({ tonumber(totals[1] or 0), is_roomy(used, limit, is_busy()) })
