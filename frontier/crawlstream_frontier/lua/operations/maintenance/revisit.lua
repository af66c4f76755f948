#!lua flags=allow-oom
-- revisit: index the bands of a crawl at their present priorities, in bounded steps, after
--   it was resumed or reprioritized.
-- Guarantee: `lease` finds every band that has entries once all steps are done, in its old order.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 bands per step.
-- `revisit`, `revisit:<c>`: see `walk`.
-- Returns: crawls left to revisit.
-- Cost: about six commands per band, of the step and of its last domain.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: dedupe
--- include: admit
--- include: walk

local c = redis.call('HRANDFIELD', K.revisit)
if not c then
  return 0
end

local left = tonumber(ARGV[1])
local own_spider = string.match(crawl_of(c).name or '', '^[^:]*')

local function visit(domain, bands)
  for priority, S in string.gmatch(bands, ',(-?%d+)@?([^,]*)') do
    S = S ~= '' and S or own_spider
    local tag = c .. '/' .. priority
    if (may_lease(c) or waits_for_coordinator(c)) and band_parts().has_entries(S, tag, domain) then
      local _, now_at = standing(tag)
      index_band(S, domain, tag, now_at)
    end
    rank_band(S, domain, tag)
    left = left - 1
  end
  return true, left > 0
end

if is_open(c) then
  walk(K.revisit, K.revisit_domains(c), c, visit)
else
  end_walk(K.revisit, K.revisit_domains(c), c)
end
finish()
return redis.call('HLEN', K.revisit)
