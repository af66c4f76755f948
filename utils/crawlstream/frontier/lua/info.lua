#!lua flags=no-writes
-- info: the ledger of a crawl, and one page of its domains.
-- Guarantee: reads counters and lengths, never entries.
-- KEYS: 1 prefix of the partition.
-- ARGV: 1 name of the crawl, 2 cursor of the domains ('0' begins; '' leaves them out), 3 domains a page.
-- Returns: packed {c, live, fields of the record, next cursor,
--   {domain, total, high, low, is it blocked …}}; {} if unknown. Priorities are as they stand now.
-- Cost: O(domains of the page * their bands): one LLEN a band, and one HMGET where domains have rules.
local P = KEYS[1]
local FIELDS_WITHOUT_DOMAIN = 2
local name, cursor, page = ARGV[1], ARGV[2], tonumber(ARGV[3])
local text = redis.call('HGET', P .. 'names', name)
if not text then
  return cmsgpack.pack({})
end
local c, live = string.match(text, '^(%d+) %d+ (%d)$')
local shift = tonumber(redis.call('HGET', P .. 'shifts', c) or 0)
local band_prefix = { [''] = P .. 'b:' .. string.match(name, '^[^:]*') .. ':' .. c .. '/' }
local domains = {}

-- How many entries wait in a band of spider S, '' for the crawl's own.
local function length_of(S, priority, domain)
  local prefix = band_prefix[S]
  if not prefix then
    prefix = P .. 'b:' .. S .. ':' .. c .. '/'
    band_prefix[S] = prefix
  end
  return redis.call('LLEN', prefix .. priority .. ':' .. domain)
end

local function add(domain, total, high, low)
  local size = #domains
  domains[size + 1], domains[size + 2], domains[size + 3] = domain, total, high + shift
  domains[size + 4], domains[size + 5] = low + shift, false
end

local function add_several(domain, bands)
  local total, high, low = 0, nil, nil
  for priority, S in string.gmatch(bands, ',(-?%d+)@?([^,]*)') do
    local length = length_of(S, priority, domain)
    if length > 0 then
      priority = tonumber(priority)
      total = total + length
      high, low = math.max(high or priority, priority), math.min(low or priority, priority)
    end
  end
  if total > 0 then
    add(domain, total, high, low)
  end
end

-- Most domains have one band, of the crawl's own spider.
local function add_domain(domain, record)
  local priority = string.match(record, '^%d+ %d+ %d+ ,(-?%d+)$')
  if not priority then
    return add_several(domain, string.match(record, ',.*$') or '')
  end
  local length = length_of('', priority, domain)
  if length > 0 then
    add(domain, length, tonumber(priority), tonumber(priority))
  end
end

local function allows_nothing(rule)
  return rule and string.sub(rule, 1, 2) == '0 '
end

-- Note which of the domains have a rule that allows nothing.
local function mark_blocked()
  local is_default_blocked = allows_nothing(redis.call('HGET', P .. 'rules', ''))
  local names = {}
  if redis.call('HLEN', P .. 'rules') > FIELDS_WITHOUT_DOMAIN then
    for i = 1, #domains, 5 do
      names[#names + 1] = domains[i]
    end
  end
  local rules = #names > 0 and redis.call('HMGET', P .. 'rules', unpack(names)) or {}
  for i = 5, #domains, 5 do
    local rule = rules[i / 5]
    domains[i] = rule and allows_nothing(rule) or not rule and is_default_blocked or false
  end
end

local next_cursor = '0'
if cursor ~= '' and live == '1' then
  local scanned = redis.call('HSCAN', P .. 'k:' .. c, cursor, 'COUNT', page)
  next_cursor = scanned[1]
  local found = scanned[2]
  for i = 1, #found, 2 do
    add_domain(found[i], found[i + 1])
  end
  mark_blocked()
end
return cmsgpack.pack({ c, live == '1', redis.call('HGETALL', P .. 'x:' .. c), next_cursor, domains })
