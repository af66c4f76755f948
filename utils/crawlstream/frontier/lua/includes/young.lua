-- Seeds of clients that give their records no key, or another than the crawl's: a later stop may have
-- been produced before them.
-- Guarantee: a stop that is read up to ten minutes after a seed which is younger, and came through
--   another Kafka partition, finds it again, unless 16 further batches brought seeds of its crawl.
-- `young:<c>` LIST of packed lists of seeds: as `intake` has them, but with the hash of their profile,
--   and their place.
-- Needs: clock, ledger. Cost: per crawl and call RPUSH, LTRIM, PEXPIRE.
local BATCHES_REMEMBERED = 16
local REMEMBER_YOUNG_MS = 10 * 60 * 1000
local FIELD_TIME, FIELD_HASH, FIELD_PLACE = 2, 9, 15
local newly_young = {}

local function remember(c, seed)
  newly_young[c] = newly_young[c] or {}
  table.insert(newly_young[c], seed)
end

-- The seeds of crawl c, from other partitions, that are younger than a stop; each with the bytes of
-- its profile. They are remembered no more.
local function younger_than_stop(c, place, timestamp)
  if crawl_of(c).state ~= 'running' then
    return {}
  end
  local batches = redis.call('LRANGE', P .. 'young:' .. c, 0, -1)
  for i = 1, #batches do
    batches[i] = cmsgpack.unpack(batches[i])
  end
  batches[#batches + 1] = newly_young[c]
  local young = {}
  for _, seeds in ipairs(batches) do
    for _, seed in ipairs(seeds) do
      if seed[FIELD_TIME] > timestamp and seed[FIELD_PLACE] ~= place then
        local number = redis.call('HGET', P .. 'f:' .. c, '#' .. seed[FIELD_HASH])
        seed.profile = redis.call('HGET', P .. 'f:' .. c, number)
        young[#young + 1] = seed
      end
    end
  end
  redis.call('UNLINK', P .. 'young:' .. c)
  newly_young[c] = nil
  return young
end

local function save_young()
  for c, seeds in pairs(newly_young) do
    local key = P .. 'young:' .. c
    redis.call('RPUSH', key, cmsgpack.pack(seeds))
    redis.call('LTRIM', key, -BATCHES_REMEMBERED, -1)
    redis.call('PEXPIRE', key, REMEMBER_YOUNG_MS)
  end
end
