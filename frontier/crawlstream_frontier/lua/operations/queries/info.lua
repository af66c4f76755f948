#!lua flags=no-writes
-- info: return the ledger of a crawl, and one page of its domains.
-- Guarantee: reads counters and lengths, never entries.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 name of the crawl, 2 cursor of the domains ('0' begins; '' leaves them out), 3 bands per page.
-- Returns: packed {fields of the record, next cursor, {domain, total, high, low …}, {domain …} blocked,
--   {spider …} for which these entries wait}; {} if unknown. Priorities are effective priorities.
-- Cost: one LLEN per band, of the page or of the last 50 domains; one HMGET if domains have rules; two more
--   commands per domain of a crawl that has bands in parts.
--- include: keys
--- include: kept
--- include: latest
local FIELDS_WITHOUT_DOMAIN, DOMAINS_A_SCAN = 2, 50
local call, match = redis.call, string.match
local name, cursor, left = ARGV[1], ARGV[2], tonumber(ARGV[3])
local text = call('HGET', K.names, name)
if not text then
  return cmsgpack.pack({})
end
local c, live = match(text, '^(%d+) %d+ (%d)$')
local shift = tonumber(call('HGET', K.shifts, c) or 0)
local own_spider = match(name, '^[^:]*')
local has_parts, parts = call('HEXISTS', K.ledger(c), 'parts') == 1, nil
local domains, size = {}, 0
local spiders, is_told = {}, {}

local function band_prefix(S, priority)
  return K.band(S, c .. '/' .. priority, '')
end

-- Return the number of a band's entries outside its head: on the shelf and in its tail.
local function beyond_head(S, priority, domain)
  local _, last = string.find(parts or '', ' ' .. S .. '/' .. priority .. '=', 1, true)
  if not last then
    return 0
  end
  return match(parts, '^%d+', last + 1) + call('LLEN', K.tail(S, c .. '/' .. priority, domain))
end

-- Key prefix and effective priority of the bands of the crawl's own spider, by priority.
local own_bands = setmetatable({}, {
  __index = function(known, priority)
    known[priority] = { prefix = band_prefix(own_spider, priority), standing = priority + shift }
    return known[priority]
  end,
})

-- Note that entries of S wait.
local function tell(S)
  if not is_told[S] then
    is_told[S] = true
    spiders[#spiders + 1] = S
  end
end

local function add(domain, total, high, low)
  domains[size + 1], domains[size + 2], domains[size + 3], domains[size + 4] = domain, total, high, low
  size = size + 4
end

local function add_several(domain, bands)
  local total, high, low = 0, -math.huge, math.huge
  for priority, S in string.gmatch(bands, ',(-?%d+)@?([^,]*)') do
    local band = own_bands[priority]
    local of = S == '' and own_spider or S
    local length = call('LLEN', (S == '' and band.prefix or band_prefix(S, priority)) .. domain)
      + beyond_head(of, priority, domain)
    left = left - 1
    if length > 0 then
      tell(of)
      total = total + length
      high, low = math.max(high, band.standing), math.min(low, band.standing)
    end
  end
  if total > 0 then
    add(domain, total, high, low)
  end
end

-- Add the queued entries of a domain. Most domains have one band.
local function add_domain(domain, record)
  parts = has_parts and call('HGET', K.parts(c), domain)
  local priority = match(record, '^[^,]*,(-?%d+)$')
  if not priority then
    return add_several(domain, match(record, ',.*$') or '')
  end
  local band = own_bands[priority]
  local length = call('LLEN', band.prefix .. domain) + beyond_head(own_spider, priority, domain)
  left = left - 1
  if length > 0 then
    tell(own_spider)
    add(domain, length, band.standing, band.standing)
  end
end

local time_s = tonumber(call('TIME')[1])

local function allows_nothing(rule)
  return rule and (string.sub(rule, 1, 2) == '0 '
    or tonumber(match(rule, '^%d+ %d+ %d %d+ (%d+)$') or 0) > time_s)
end

-- Return the domains whose rule allows nothing now.
local function blocked()
  local is_default_blocked = allows_nothing(call('HGET', K.rules, ''))
  if call('HLEN', K.rules) <= FIELDS_WITHOUT_DOMAIN and not is_default_blocked then
    return {}
  end
  local names, found = {}, {}
  for i = 1, size, 4 do
    names[#names + 1] = domains[i]
  end
  local rules = #names > 0 and call('HMGET', K.rules, unpack(names)) or {}
  for i, rule in ipairs(rules) do
    if rule and allows_nothing(rule) or not rule and is_default_blocked then
      found[#found + 1] = names[i]
    end
  end
  return found
end

local next_cursor = '0'
if cursor ~= '' and live == '1' then
  next_cursor = cursor
  repeat
    local scanned = call('HSCAN', K.domains(c), next_cursor, 'COUNT', DOMAINS_A_SCAN)
    next_cursor = scanned[1]
    local found = scanned[2]
    for i = 1, #found, 2 do
      add_domain(found[i], found[i + 1])
    end
  until next_cursor == '0' or left <= 0
end
return cmsgpack.pack({ ledger_for_readers(c), next_cursor, domains, blocked(), spiders })
