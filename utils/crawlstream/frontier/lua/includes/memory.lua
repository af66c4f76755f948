-- How full Redis is: from this share of its `maxmemory` on, seeds wait in Kafka, so that what is
-- under way has room to end. Without a `maxmemory` it is never full.
local INTAKE_SHARE = 0.75

local function memory()
  local info = redis.call('INFO', 'memory')
  return tonumber(string.match(info, '\nused_memory:(%d+)')),
    tonumber(string.match(info, '\nmaxmemory:(%d+)'))
end

local function is_full(used, limit)
  return limit > 0 and used >= INTAKE_SHARE * limit
end
