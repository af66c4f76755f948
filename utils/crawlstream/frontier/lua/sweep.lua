#!lua flags=allow-oom
-- sweep: one bounded step of removing what a closed crawl leaves: bands, dedupe, profiles.
-- Guarantee: touches only keys of crawl numbers that take no entries any more; the ledger has
--   already counted them.
-- KEYS: 1 prefix of the partition.
-- ARGV: 1 domains a step.
-- Returns: crawls left to sweep.
-- Cost: O(domains a step * their bands); memory is freed in the background.
--- include: clock
--- include: ledger
--- include: bands
--- include: dedupe
--- include: admit

local SLABS_A_STEP = 500
local c = redis.call('SRANDMEMBER', P .. 'sweep')
if not c then
  return 0
end
local key = P .. 'k:' .. c
local own_spider = string.match(crawl_of(c).name or '', '^[^:]*')

local function sweep_domain(domain, record)
  for band in string.gmatch(record.bands, '[^,]+') do
    local priority, S = string.match(band, '^(-?%d+)@?(.*)$')
    S = S ~= '' and S or own_spider
    redis.call('UNLINK', P .. 'b:' .. S .. ':' .. c .. '/' .. priority .. ':' .. domain)
    if redis.call('SREM', P .. 'p:' .. S, domain) == 1 then
      redis.call('ZADD', P .. 'w:' .. S, int(now), domain)
    end
  end
  if record.own > 0 then
    for set = 0, sets_for(record.own) - 1 do
      redis.call('UNLINK', own_key(c, domain, set))
    end
  end
end

local fields = redis.call('HRANDFIELD', key, tonumber(ARGV[1]), 'WITHVALUES')
if #fields > 0 then
  local domains = {}
  for i = 1, #fields, 2 do
    sweep_domain(fields[i], parse_domain_record(fields[i + 1]))
    domains[#domains + 1] = fields[i]
  end
  redis.call('HDEL', key, unpack(domains))
else
  local slab = tonumber(redis.call('HGET', P .. 'x:' .. c, 'slab') or 0)
  local last = math.max(slab - SLABS_A_STEP, 0)
  for i = last + 1, slab do
    redis.call('UNLINK', P .. 's:' .. c .. ':' .. int(i))
  end
  if last > 0 then
    redis.call('HSET', P .. 'x:' .. c, 'slab', int(last))
  else
    if slab > 0 then
      redis.call('HDEL', P .. 'x:' .. c, 'slab', 'seats')
    end
    redis.call('UNLINK', P .. 'f:' .. c)
    redis.call('SREM', P .. 'sweep', c)
  end
end
save_clock()
return redis.call('SCARD', P .. 'sweep')
