#!lua flags=allow-oom
-- sweep: one bounded step of removing what a closed crawl leaves: bands, delayed entries, dedupe,
--   profiles.
-- Guarantee: touches only keys of crawl numbers that take no entries any more; the ledger has
--   already counted them. Profiles stay until the last held page is back.
-- KEYS: 1 prefix of the partition.
-- ARGV: 1 domains a step.
-- Returns: crawls left to sweep.
-- Cost: O(domains a step * their bands), and at most 1 000 dedupe sets more than the last domain has
--   bands; memory is freed in the background.
--- include: clock
--- include: ledger
--- include: throttle
--- include: bands
--- include: dedupe
--- include: admit

local SETS_A_STEP = 1000
local c = redis.call('SRANDMEMBER', P .. 'sweep')
if not c then
  return 0
end
local key = P .. 'k:' .. c
local own_spider = string.match(crawl_of(c).name or '', '^[^:]*')
local sets_left = SETS_A_STEP

-- Take a tag out of the index of a domain, and the domain out of all if it was the last one.
local function unindex(S, domain, tag)
  local o = redis.call('HGET', P .. 'o:' .. S, domain)
  if o ~= tag and o ~= SEVERAL then
    return
  end
  if not drop_tag(S, domain, o, tag) then
    redis.call('ZREM', P .. 'r:' .. S, domain)
    redis.call('ZREM', P .. 'w:' .. S, domain)
    redis.call('SREM', P .. 'p:' .. S, domain)
    leave(S, domain)
  end
end

local spiders = {}

local function sweep_bands(domain, bands)
  for band in string.gmatch(bands, '[^,]+') do
    local priority, S = string.match(band, '^(-?%d+)@?(.*)$')
    S = S ~= '' and S or own_spider
    local tag = c .. '/' .. priority
    spiders[S] = true
    redis.call('UNLINK', band_key(S, tag, domain))
    unindex(S, domain, tag)
  end
end

-- Remove a domain's own dedupe sets, as many as this step allows; answers whether all are gone.
local function sweep_sets(domain, record)
  local sets = record.own > 0 and sets_for(record.own) or 0
  local stay = math.max(sets - sets_left, 0)
  for set = stay, sets - 1 do
    redis.call('UNLINK', own_key(c, domain, set))
  end
  sets_left = sets_left - (sets - stay)
  if stay > 0 then
    record.own = stay * OWN_PER_SET
    save_domain_record(c, domain, record)
  end
  return stay == 0
end

local function sweep_slabs()
  local slabs = tonumber(redis.call('HGET', P .. 'x:' .. c, 'slab') or 0)
  local stay = math.max(slabs - SETS_A_STEP, 0)
  for slab = stay + 1, slabs do
    redis.call('UNLINK', P .. 's:' .. c .. ':' .. int(slab))
  end
  if stay > 0 then
    redis.call('HSET', P .. 'x:' .. c, 'slab', int(stay))
    return false
  end
  redis.call('HDEL', P .. 'x:' .. c, 'slab', 'seats')
  return true
end

local fields = redis.call('HRANDFIELD', key, ARGV[1], 'WITHVALUES')
if #fields > 0 then
  local gone = {}
  for i = 1, #fields, 2 do
    local record = parse_domain_record(fields[i + 1])
    sweep_bands(fields[i], record.bands)
    if sweep_sets(fields[i], record) then
      gone[#gone + 1] = fields[i]
    end
    if sets_left <= 0 then
      break
    end
  end
  if #gone > 0 then
    redis.call('HDEL', key, unpack(gone))
  end
  for S in pairs(spiders) do
    drop_delayed(S, c)
  end
elseif sweep_slabs() then
  local state = crawl_of(c).state
  if state ~= 'stopping' and state ~= 'expiring' then
    redis.call('UNLINK', P .. 'f:' .. c)
  end
  redis.call('SREM', P .. 'sweep', c)
end
wake_workers()
save_clock()
return redis.call('SCARD', P .. 'sweep')
