#!lua flags=no-writes
-- room: how many links are spilled, and whether they may come back.
-- Guarantee: reads totals only.
-- KEYS: 1 prefix of the partition.
-- Returns: packed {spilled, may they come back}
-- Cost: two commands.
--- include: memory
local totals = redis.call('HMGET', KEYS[1] .. 'totals', 'spilled', 'queued')
local used, limit = memory()
return cmsgpack.pack({ tonumber(totals[1] or 0), is_roomy(used, limit, tonumber(totals[2] or 0)) })
