#!lua flags=allow-oom
-- revisit: one bounded step of putting the bands of a crawl into the index where they stand now, after
--   it was resumed or reprioritized.
-- Guarantee: every band that has entries is found by `lease` once all steps are done, in its old order.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 bands a step.
-- `revisit` HASH crawl number -> cursor of its domains.
-- Returns: crawls left to revisit.
-- Cost: about six commands a band, of the step or of the last 50 domains.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: dedupe
--- include: admit

local c = redis.call('HRANDFIELD', P .. 'revisit')
if not c then
  return 0
end

local left, DOMAINS_A_SCAN = tonumber(ARGV[1]), 50
local own_spider = string.match(crawl_of(c).name or '', '^[^:]*')

local function visit(domain, bands)
  for priority, S in string.gmatch(bands, ',(-?%d+)@?([^,]*)') do
    S = S ~= '' and S or own_spider
    local tag = c .. '/' .. priority
    if may_lease(c) and redis.call('EXISTS', band_key(S, tag, domain)) == 1 then
      local _, now_at = standing(tag)
      index_band(S, domain, tag, now_at)
    end
    rank_band(S, domain, tag)
    left = left - 1
  end
end

local cursor = '0'
if is_open(c) then
  cursor = redis.call('HGET', P .. 'revisit', c)
  repeat
    local scanned = redis.call('HSCAN', P .. 'k:' .. c, cursor, 'COUNT', DOMAINS_A_SCAN)
    cursor = scanned[1]
    for i = 1, #scanned[2], 2 do
      visit(scanned[2][i], parse_domain_record(scanned[2][i + 1]).bands)
    end
  until cursor == '0' or left <= 0
end
if cursor == '0' then
  redis.call('HDEL', P .. 'revisit', c)
else
  redis.call('HSET', P .. 'revisit', c, cursor)
end
wake_workers()
save_clock()
return redis.call('HLEN', P .. 'revisit')
