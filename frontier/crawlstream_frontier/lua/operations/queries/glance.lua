#!lua flags=no-writes
-- glance: return the totals of the frontier.
-- Guarantee: reads totals, never crawls or entries.
-- KEYS: 1 prefix of all keys.
-- Returns: packed {life, clock, rules_known, running, queued, delayed, held, workers, outbox, actions,
--   memory used, its limit (0: none) in bytes, do seeds wait for memory, residual of the ledgers, spilled,
--   {spider, domains with work …}, shelved (part of queued), chunks on another server}
-- Cost: O(spiders).
--- include: keys
--- include: memory
local used, limit = memory()
local m = redis.call('HMGET', K.meta, 'life', 'clock', 'mzxid')
local totals = redis.call('HMGET', K.totals, 'running', 'queued', 'delayed', 'held', 'residual',
  'spilled', 'shelved')
local backlog = {}
for _, S in ipairs(redis.call('SMEMBERS', K.spiders)) do
  backlog[#backlog + 1] = S
  -- The index has one field that is not a domain.
  backlog[#backlog + 1] = redis.call('HLEN', K.tags(S)) - 1
end
for i = 1, 7 do
  totals[i] = tonumber(totals[i] or 0)
end
return cmsgpack.pack({ tonumber(m[1] or 0), tonumber(m[2] or 0), m[3] and true or false, totals[1],
  totals[2], totals[3], totals[4], redis.call('ZCARD', K.workers),
  redis.call('XLEN', K.outbox), redis.call('XLEN', K.actions), used, limit,
  is_full(used, limit), totals[5], totals[6], backlog, totals[7],
  tonumber(redis.call('HGET', K.shelf, 'chunks') or 0) })
