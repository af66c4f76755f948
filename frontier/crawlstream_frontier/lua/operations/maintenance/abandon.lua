#!lua flags=allow-oom
-- abandon: fail, in bounded steps, entries that waited too long: those of a run that `watch` found, those of
--   a domain that does not answer (`heed`), or spilled links that are lost (spill_lost).
-- Guarantee: an entry fails only while its cause lasts: no worker of its spider lives
--   (no_worker), or its domain gets no requests because it does not answer (domain_unreachable). Entries
--   held back by a person (a pause, a rule that allows nothing, a time that a client set) stay.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 bands per step, 2 entries (or records of spilled links) per step.
-- `abandon`, `abandon:<c>`: see `walk`; or a cursor of its spills behind an 's'.
-- Returns: runs left to abandon; 0 also while the last failures are not published yet, or the next
--   entries are on the shelf: `restocked` has this called again.
-- Cost: O(bands per step and of its last domain + entries per step + workers).
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: dedupe
--- include: admit
--- include: walk
--- include: holds
--- include: bury
--- include: spills

local MOST_OWED = 10000
local c = redis.call('HRANDFIELD', K.abandon)
if not c or redis.call('XLEN', K.outbox) >= MOST_OWED then
  return 0
end
local bands_left, left, is_waiting = tonumber(ARGV[1]), tonumber(ARGV[2]), false
local own_spider = string.match(crawl_of(c).name or '', '^[^:]*')

-- Return the spider of a living worker, by its sleep or by one of its leases; nil if neither shows it.
local function spider_at(worker)
  local key = K.holds(worker)
  local V = redis.call('HGET', key, '@')
  for _, field in ipairs(V and {} or redis.call('HRANDFIELD', key, 3)) do
    if string.find(field, '-', 1, true) then
      V = parse_hold(field, redis.call('HGET', key, field)).lot.view
    end
  end
  return V and spider_of(V) or nil
end

local at_work, is_anybody = {}, false
for _, worker in ipairs(redis.call('ZRANGE', K.workers, 0, -1)) do
  local S = spider_at(worker)
  if S then
    at_work[S] = true
  else
    is_anybody = true
  end
end

-- Return why entries of S in a domain wait; nil if a person holds them back, or others are served first.
local function cause_of(S, domain)
  local rule = table_rule_of(domain)
  if rule.hits == 0 or rule.paused_until > wall then
    return nil
  elseif not at_work[S] and not is_anybody then
    return 'no_worker'
  end
  local is_reachable = false
  for _, V in ipairs(views_of(S)) do
    local states = load_states(keys_of(V, { domain }))
    is_reachable = is_reachable or not is_unreachable(states[1])
  end
  return not is_reachable and 'domain_unreachable' or nil
end

local function abandon_band(S, domain, priority)
  local tag = c .. '/' .. priority
  local reason = (band_parts().has_entries(S, tag, domain) or shelf_notes().get(S, tag, domain)) and cause_of(S, domain)
  while reason and left > 0 and band_parts().has_entries(S, tag, domain) do
    local entries = redis.call('LPOP', K.band(S, tag, domain), left)
    left = left - #entries
    if crawl_of(c).is_scored then
      entries = promotion().take(c, domain, entries)
    end
    for i = 1, #entries do
      bury(c, S, domain, tonumber(priority), entries[i], reason)
    end
    count(c, 'queued', -#entries)
  end
  is_waiting = reason and left > 0 and shelf_notes().get(S, tag, domain) and true or is_waiting
end

-- Return the same domain again, if not all entries waiting there could be taken.
local function visit(domain, bands)
  for band in string.gmatch(bands, ',([^,]+)') do
    local priority, S = string.match(band, '^(-?%d+)@?(.*)$')
    abandon_band(S ~= '' and S or own_spider, domain, priority)
    bands_left = bands_left - 1
    if left <= 0 or is_waiting then
      return false, false
    end
  end
  return true, bands_left > 0
end

local spills_at = string.match(redis.call('HGET', K.abandon, c), '^' .. SPILLS .. '(%d+)$')
if spills_at then
  local next_at = lose_spills(c, spills_at, ARGV[2])
  if next_at == '0' then
    redis.call('HDEL', K.abandon, c)
  else
    redis.call('HSET', K.abandon, c, SPILLS .. next_at)
  end
elseif not (rules_known and may_lease(c)) then
  end_walk(K.abandon, K.abandon_domains(c), c)
  redis.call('HDEL', K.stalled, c)
elseif walk(K.abandon, K.abandon_domains(c), c, visit) then
  redis.call('HDEL', K.stalled, c)
end
finish()
return is_waiting and 0 or redis.call('HLEN', K.abandon)
