-- How full Redis is, as shares of its `maxmemory`. Without a `maxmemory` it is never full.
-- full: seeds wait in Kafka, so that pages in flight have room to end.
-- crowded: children wait there, too. They come back while Redis is roomy, or when nothing else can
--   be leased soon and it is not crowded: the remaining entries do not shrink by waiting.
local INTAKE_SHARE, SPILL_SHARE, RECALL_SHARE = 0.75, 0.9, 0.7

local function memory()
  local info = redis.call('INFO', 'memory')
  return tonumber(string.match(info, '\nused_memory:(%d+)')),
    tonumber(string.match(info, '\nmaxmemory:(%d+)'))
end

local function is_full(used, limit)
  return limit > 0 and used >= INTAKE_SHARE * limit
end

local function is_crowded(used, limit)
  return limit > 0 and used >= SPILL_SHARE * limit
end

local function is_roomy(used, limit, is_busy)
  return not is_crowded(used, limit)
    and (not is_busy or used < RECALL_SHARE * limit or limit == 0)
end
