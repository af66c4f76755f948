#!lua flags=allow-oom
-- sweep: one bounded step of removing what a closed crawl leaves: bands, delayed entries, dedupe,
--   profiles.
-- Guarantee: touches only keys of crawl numbers that take no entries any more; the ledger has
--   already counted them. Profiles stay until the last held page is back.
-- KEYS: 1 prefix of the partition.
-- ARGV: 1 domains a step.
-- Returns: crawls left to sweep.
-- Cost: at most 1 000 keys more than the last domain has bands; what many domains have in common is
--   removed by one command. Memory is freed in the background.
--- include: clock
--- include: ledger
--- include: throttle
--- include: bands
--- include: dedupe
--- include: admit

local KEYS_A_STEP = 1000

-- One crawl after the other: the one that was begun, and where in its domains; else any.
local m = redis.call('HMGET', P .. 'm', 'sweep_of', 'sweep_at')
local c, cursor = m[1], m[2]
if not c or redis.call('SISMEMBER', P .. 'sweep', c) == 0 then
  c, cursor = redis.call('SRANDMEMBER', P .. 'sweep'), '0'
end
if not c then
  return 0
end
local key = P .. 'k:' .. c
local own_spider = string.match(crawl_of(c).name or '', '^[^:]*')
local doomed = {}

local function remove_doomed()
  for from = 1, #doomed, KEYS_A_STEP do
    redis.call('UNLINK', unpack(doomed, from, math.min(from + KEYS_A_STEP - 1, #doomed)))
  end
end

-- Domains that have nothing of S any more: out of its index, and of the one of three they stand in.
local function leave_all(S, domains)
  redis.call('HDEL', P .. 'o:' .. S, unpack(domains))
  local left = #domains - redis.call('ZREM', P .. 'r:' .. S, unpack(domains))
  if left > 0 then
    left = left - redis.call('ZREM', P .. 'w:' .. S, unpack(domains))
  end
  if left > 0 then
    redis.call('SREM', P .. 'p:' .. S, unpack(domains))
  end
  load_states(domains)
  for _, domain in ipairs(domains) do
    if not state_cache[domain].is_new then
      forget_later(domain, state_cache[domain], rules_of({ domain })[1])
    end
  end
end

-- Take tags of this crawl out of the index of S: a list of domains, and the tags of each.
local function unindex(S, domains, tags_of)
  local indexed, empty = redis.call('HMGET', P .. 'o:' .. S, unpack(domains)), {}
  for i, domain in ipairs(domains) do
    local o = indexed[i]
    for _, tag in ipairs(tags_of[domain]) do
      o = o and drop_tag(S, domain, o, tag)
    end
    if indexed[i] and not o then
      empty[#empty + 1] = domain
    end
  end
  if #empty > 0 then
    leave_all(S, empty)
  end
end

local spiders = {}

-- Note the bands of a domain for removal, and their tags for `unindex`.
local function sweep_bands(domain, bands)
  for priority, S in string.gmatch(bands, ',(-?%d+)@?([^,]*)') do
    S = S ~= '' and S or own_spider
    local of = spiders[S]
    if not of then
      of = { domains = {}, tags = {} }
      spiders[S] = of
    end
    if not of.tags[domain] then
      of.domains[#of.domains + 1], of.tags[domain] = domain, {}
    end
    local tag = c .. '/' .. priority
    table.insert(of.tags[domain], tag)
    doomed[#doomed + 1] = band_key(S, tag, domain)
  end
end

-- Note a domain's own dedupe sets, as many as this step allows; answers whether all will be gone.
local function sweep_sets(domain, record)
  local sets = record.own > 0 and sets_for(record.own) or 0
  local stay = math.max(sets - math.max(KEYS_A_STEP - #doomed, 1), 0)
  for set = stay, sets - 1 do
    doomed[#doomed + 1] = own_key(c, domain, set)
  end
  if stay > 0 then
    record.own = stay * OWN_PER_SET
    save_domain_record(c, domain, record)
  end
  return stay == 0
end

-- Sweep domains; answers whether all that were found could be.
local function sweep_domains(fields)
  local gone = {}
  for i = 1, #fields, 2 do
    local record = parse_domain_record(fields[i + 1])
    sweep_bands(fields[i], record.bands)
    if sweep_sets(fields[i], record) then
      gone[#gone + 1] = fields[i]
    end
    if #doomed >= KEYS_A_STEP then
      break
    end
  end
  if #gone > 0 then
    redis.call('HDEL', key, unpack(gone))
  end
  for S, of in pairs(spiders) do
    unindex(S, of.domains, of.tags)
    drop_delayed(S, c)
  end
  return #gone * 2 == #fields
end

local function sweep_slabs()
  local slabs = tonumber(redis.call('HGET', P .. 'x:' .. c, 'slab') or 0)
  local stay = math.max(slabs - KEYS_A_STEP, 0)
  for slab = stay + 1, slabs do
    doomed[#doomed + 1] = P .. 's:' .. c .. ':' .. int(slab)
  end
  if stay > 0 then
    redis.call('HSET', P .. 'x:' .. c, 'slab', int(stay))
    return false
  end
  redis.call('HDEL', P .. 'x:' .. c, 'slab', 'seats')
  return true
end

if redis.call('EXISTS', key) == 1 then
  local scanned = redis.call('HSCAN', key, cursor, 'COUNT', ARGV[1])
  if sweep_domains(scanned[2]) then
    cursor = scanned[1]
  end
  redis.call('HSET', P .. 'm', 'sweep_of', c, 'sweep_at', cursor)
elseif sweep_slabs() then
  local state = crawl_of(c).state
  if state ~= 'stopping' and state ~= 'expiring' then
    doomed[#doomed + 1] = P .. 'f:' .. c
  end
  redis.call('SREM', P .. 'sweep', c)
  redis.call('HDEL', P .. 'm', 'sweep_of', 'sweep_at')
end
remove_doomed()
wake_workers()
save_clock()
return redis.call('SCARD', P .. 'sweep')
