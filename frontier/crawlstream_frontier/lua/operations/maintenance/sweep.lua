#!lua flags=allow-oom
-- sweep: remove the data of a closed crawl in bounded steps: bands, delayed entries, dedupe,
--   profiles.
-- Guarantee: touches only keys of crawl numbers that take no entries any more; the ledger has
--   already counted their entries. Profiles stay until the last lease has ended.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 keys and domains per step.
-- It leaves the chunks of a band in parts to `shelve`, in `abandoned_chunks`.
-- Returns: crawls left to sweep.
-- Cost: O(keys and domains per step), however many bands a domain has; data shared by many domains is
--   removed by one command. Long lists are freed in the background.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: dedupe
--- include: admit

local a_step, DOMAINS_A_SCAN = tonumber(ARGV[1]), 25

-- Crawls are swept one after the other: continue the one in progress at its cursor; else take any.
local m = redis.call('HMGET', K.meta, 'sweep_of', 'sweep_at')
local c, cursor = m[1], m[2]
if not c or redis.call('SISMEMBER', K.sweep, c) == 0 then
  c, cursor = redis.call('SRANDMEMBER', K.sweep), '0'
end
if not c then
  return 0
end
local key = K.domains(c)
local own_spider = string.match(crawl_of(c).name or '', '^[^:]*')
local is_scored = crawl_of(c).is_scored
local doomed, gone = {}, {}

-- Return the rest of this step's limit.
local function left()
  return a_step - #doomed - #gone
end

local function remove_doomed()
  for from = 1, #doomed, a_step do
    redis.call('UNLINK', unpack(doomed, from, math.min(from + a_step - 1, #doomed)))
  end
end

local function leave_view(V, domains)
  local rest = #domains - redis.call('ZREM', K.ready(V), unpack(domains))
  if rest > 0 then
    rest = rest - redis.call('ZREM', K.waiting(V), unpack(domains))
  end
  if rest > 0 then
    rest = rest - redis.call('SREM', K.parked(V), unpack(domains))
  end
  if rest > 0 and gates then
    gates.inside().changes().leave(V, domains)
  end
  forget_later(V, domains)
end

-- Remove domains without bands of S from its index, and from its set of ready, waiting or parked domains.
local function leave_all(S, domains)
  redis.call('HDEL', K.tags(S), unpack(domains))
  for _, V in ipairs(views_of(S)) do
    leave_view(V, domains)
  end
end

-- Remove tags of this crawl from the index of S: the i-th of the i-th domain.
local function unindex(S, domains, tags)
  local index, empty = K.tags(S), {}
  local indexed = redis.call('HMGET', index, unpack(domains))
  for i, domain in ipairs(domains) do
    local o = indexed[i]
    if o == domain_tags.SEVERAL then
      -- Earlier removals may have left only this tag.
      o = domain_tags.drop(S, domain, redis.call('HGET', index, domain), tags[i]) or tags[i]
    end
    if o == tags[i] then
      empty[#empty + 1] = domain
    end
  end
  if #empty > 0 then
    leave_all(S, empty)
  end
end

local spiders = {}

-- Return what this step removes of spider S: its i-th tag of its i-th domain; and the prefix of its bands.
local function of_spider(S)
  spiders[S] = { domains = {}, tags = {}, tag_of = {}, prefix_of = {} }
  return spiders[S]
end

-- Note a band for removal, and for `unindex`.
local function sweep_band(S, priority, domain)
  local of = spiders[S] or of_spider(S)
  if not of.tag_of[priority] then
    of.tag_of[priority] = c .. '/' .. priority
    of.prefix_of[priority] = K.band(S, of.tag_of[priority], '')
  end
  local n = #of.domains + 1
  of.domains[n], of.tags[n] = domain, of.tag_of[priority]
  doomed[#doomed + 1] = of.prefix_of[priority] .. domain
  if shelf_notes().get(S, of.tag_of[priority], domain) then
    doomed[#doomed + 1] = K.tail(S, of.tag_of[priority], domain)
    redis.call('SADD', K.abandoned_chunks, S .. ' ' .. of.tag_of[priority] .. ' ' .. domain)
  end
end

-- Note a domain's own dedupe sets for removal, up to the limit; return true if all are noted.
local function sweep_sets(domain, text, own)
  local sets = sets_for(own)
  local stay = math.max(sets - math.max(left(), 1), 0)
  for set = stay, sets - 1 do
    doomed[#doomed + 1] = own_key(c, domain, set)
  end
  if stay > 0 then
    local record = parse_domain_record(text)
    record.own, record.bands = stay * OWN_PER_SET, ''
    redis.call('HSET', key, domain, domain_record_text(record))
  end
  return stay == 0
end

-- Note a domain's bands for removal, up to the limit; return its record with the remaining ones,
-- nil if none remain.
local function sweep_bands(domain, text)
  local head, bands = string.match(text, '^(%d+ %d+ %d+ )(.*)$')
  local at = string.find(bands, ',', 1, true) or #bands + 1
  while at <= #bands do
    if left() <= 0 then
      text = head .. string.sub(bands, at)
      redis.call('HSET', key, domain, text)
      return text
    end
    local _, last, priority, S = string.find(bands, '^,(-?%d+)@?([^,]*)', at)
    sweep_band(S ~= '' and S or own_spider, priority, domain)
    at = last + 1
  end
end

-- Note a domain's bands and sets for removal; return true if all are noted. Most domains have one band.
local function sweep_domain(domain, text)
  local own, priority = string.match(text, '^%d+ %d+ (%d+) ,(-?%d+)$')
  if priority then
    sweep_band(own_spider, priority, domain)
  elseif sweep_bands(domain, text) then
    return false
  else
    own = string.match(text, '^%d+ %d+ (%d+)')
  end
  return own == '0' or sweep_sets(domain, text, tonumber(own))
end

-- Note domains for removal; return true if all of them could be noted.
local function sweep_domains(fields)
  for i = 1, #fields, 2 do
    if left() <= 0 or not sweep_domain(fields[i], fields[i + 1]) then
      return false
    end
    gone[#gone + 1] = fields[i]
    doomed[#doomed + 1] = is_scored and K.linked(c, fields[i]) or nil
  end
  return true
end

-- Sweep domains from the cursor on; return the cursor of the next step.
local function sweep_from(at)
  repeat
    local scanned = redis.call('HSCAN', key, at, 'COUNT', DOMAINS_A_SCAN)
    if not sweep_domains(scanned[2]) then
      break
    end
    at = scanned[1]
  until at == '0' or left() <= 0
  for S, of in pairs(spiders) do
    unindex(S, of.domains, of.tags)
    delays.drop(S, c)
  end
  if #gone > 0 then
    redis.call('HDEL', key, unpack(gone))
  end
  return at
end

local function sweep_slabs()
  local slabs = tonumber(redis.call('HGET', K.ledger(c), 'slab') or 0)
  local stay = math.max(slabs - a_step, 0)
  for slab = stay + 1, slabs do
    doomed[#doomed + 1] = K.slab(c, int(slab))
  end
  if stay > 0 then
    redis.call('HSET', K.ledger(c), 'slab', int(stay))
    return false
  end
  redis.call('HDEL', K.ledger(c), 'slab', 'seats')
  return true
end

if redis.call('EXISTS', key) == 1 then
  redis.call('HSET', K.meta, 'sweep_of', c, 'sweep_at', sweep_from(cursor))
elseif sweep_slabs() then
  local state = crawl_of(c).state
  if state ~= 'stopping' and state ~= 'expiring' then
    doomed[#doomed + 1] = K.profiles(c)
  end
  doomed[#doomed + 1] = K.parts(c)
  doomed[#doomed + 1] = K.need(c)
  doomed[#doomed + 1] = K.wanted(c)
  doomed[#doomed + 1] = K.used(c)
  redis.call('HDEL', K.ledger(c), 'parts')
  redis.call('SREM', K.sweep, c)
  redis.call('HDEL', K.meta, 'sweep_of', 'sweep_at')
end
remove_doomed()
finish()
return redis.call('SCARD', K.sweep)
