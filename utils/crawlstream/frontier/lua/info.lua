#!lua flags=no-writes
-- info: the ledger of a crawl, and one page of its domains.
-- Guarantee: reads counters and lengths, never entries.
-- KEYS: 1 prefix of the partition.
-- ARGV: 1 name of the crawl, 2 cursor of the domains ('0' begins; '' leaves them out), 3 domains a page.
-- Returns: packed {c, live, fields of the record, next cursor,
--   {domain, total, high, low, is it blocked …}}; {} if unknown. Priorities are as they stand now.
-- Cost: O(domains of the page * their bands).
local P = KEYS[1]
local name, cursor, page = ARGV[1], ARGV[2], tonumber(ARGV[3])
local text = redis.call('HGET', P .. 'names', name)
if not text then
  return cmsgpack.pack({})
end
local c, live = string.match(text, '^(%d+) %d+ (%d)$')
local own_spider = string.match(name, '^[^:]*')
local domains = {}
local shift = tonumber(redis.call('HGET', P .. 'shifts', c) or 0)
local default_rule = redis.call('HGET', P .. 'rules', '') or ''

-- Whether the rule of a domain allows nothing.
local function is_blocked(domain)
  local rule = redis.call('HGET', P .. 'rules', domain) or default_rule
  return string.sub(rule, 1, 2) == '0 '
end

local function add_domain(domain, bands)
  local total, high, low = 0, nil, nil
  for band in string.gmatch(bands, '[^,]+') do
    local priority, S = string.match(band, '^(-?%d+)@?(.*)$')
    S = S ~= '' and S or own_spider
    local length = redis.call('LLEN', P .. 'b:' .. S .. ':' .. c .. '/' .. priority .. ':' .. domain)
    if length > 0 then
      priority = tonumber(priority) + shift
      total = total + length
      high, low = math.max(high or priority, priority), math.min(low or priority, priority)
    end
  end
  if total > 0 then
    for _, value in ipairs({ domain, total, high, low, is_blocked(domain) }) do
      domains[#domains + 1] = value
    end
  end
end

local next_cursor = '0'
if cursor ~= '' and live == '1' then
  local scanned = redis.call('HSCAN', P .. 'k:' .. c, cursor, 'COUNT', page)
  next_cursor = scanned[1]
  for i = 1, #scanned[2], 2 do
    add_domain(scanned[2][i], string.match(scanned[2][i + 1], '^%d+ %d+ %d+ (.*)$'))
  end
end
return cmsgpack.pack({ c, live == '1', redis.call('HGETALL', P .. 'x:' .. c), next_cursor, domains })
