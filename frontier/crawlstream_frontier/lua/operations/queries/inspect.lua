#!lua flags=allow-oom
-- inspect: return a crawl's entries in one domain in order, its leases, and whether a page is known.
-- Guarantee: one moment, no effect. An answer that is cut off says so.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 name of the crawl, 2 domain, 3 fingerprint|'' (''; no page requested), 4 most entries,
--   5 most workers, 6 the site in the domain where the page is counted, or the domain.
-- Returns: packed {run, state, is the fingerprint known, queued, delayed, held, is it complete, does its page wait by
--   an entry with a mark (see `inlinks`), what `host_budgets` notes of the domain|''}; {} for an unknown crawl
--   queued  {spider, priority, standing, length, {entry …} of the head, {id, entries, chunk|'' …} in their order,
--           {entry …} of the tail}, best standing first; chunk '': it is on another server
--   delayed {spider, due_ms from now, priority, entry}
--   held    {worker, token, since_ms ago, flags as in `holds`, spider, priority, entry}
-- Cost: O(requested entries + leases of all requested workers).
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: dedupe
--- include: admit
--- include: holds
--- include: shelf
--- include: listed

local name, domain, fingerprint = ARGV[1], ARGV[2], ARGV[3]
local most_entries, most_workers, site = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local c, run, live = string.match(redis.call('HGET', K.names, name) or '', '^(%d+) (%d+) (%d)$')
if not c then
  return cmsgpack.pack({})
end
local MOST_CHUNKS = 40
local own_spider = string.match(name, '^[^:]*')
local record = parse_domain_record(redis.call('HGET', K.domains(c), domain))
local is_complete, left = true, most_entries

local function by_standing(a, b)
  return a[3] > b[3]
end

local queued, spiders = {}, { [own_spider] = true }

local function list_bands(at, bands)
  for band in string.gmatch(live == '1' and bands or '', ',([^,]+)') do
    local priority, S = string.match(band, '^(-?%d+)@?(.*)$')
    S, priority = S ~= '' and S or own_spider, tonumber(priority)
    spiders[S] = true
    local tag = c .. '/' .. int(priority)
    local length = redis.call('LLEN', K.band(S, tag, at)) + redis.call('LLEN', K.tail(S, tag, at))
      + (shelf_notes().get(S, tag, at) or 0)
    queued[#queued + 1] = { S, priority, priority + shift_of(c), length, tag, at }
  end
end

list_bands(domain, record.bands)
if site ~= domain then
  list_bands(site, parse_domain_record(redis.call('HGET', K.domains(c), site)).bands)
end
table.sort(queued, by_standing)

-- Return entries of a list, up to the rest of the limit.
local function some_of(key)
  local entries = left > 0 and redis.call('LRANGE', key, 0, left - 1) or {}
  left = left - #entries
  return entries
end

-- Return the first chunks of a band, up to the rest of the limit, and the number of their entries.
local function some_chunks(S, tag, at)
  local shown, shelved = {}, 0
  for _, text in ipairs(redis.call('LRANGE', K.chunks(S, tag, at), 0, MOST_CHUNKS - 1)) do
    local id, entries, place = split_chunk(text)
    if entries > left then
      break
    end
    left, shelved = left - entries, shelved + entries
    shown[#shown + 1], shown[#shown + 2] = id, entries
    shown[#shown + 1] = place == INSIDE and redis.call('GET', K.chunk(id)) or ''
  end
  return shown, shelved
end

for _, band in ipairs(queued) do
  local S, tag, at = band[1], band[5], band[6]
  local head = some_of(K.band(S, tag, at))
  local chunks, shelved = some_chunks(S, tag, at)
  local is_all = shelved == (shelf_notes().get(S, tag, at) or 0)
  local tail = is_all and some_of(K.tail(S, tag, at)) or {}
  band[5], band[6], band[7] = head, chunks, tail
  is_complete = is_complete and #head + shelved + #tail == band[4]
end

local delayed = {}
for S in pairs(spiders) do
  local found = redis.call('ZRANGE', K.delayed(S, c), 0, most_entries - 1, 'WITHSCORES')
  is_complete = is_complete and #found < 2 * most_entries
  for i = 1, #found, 2 do
    local _, priority, at, entry = string.match(found[i], '^%d+ (%a) (%S+) (%S+) (.*)$')
    if at == domain or at == site then
      delayed[#delayed + 1] = { S, tonumber(found[i + 1]) - now, tonumber(priority), entry }
    end
  end
end

local held = {}
local workers = redis.call('ZRANGE', K.workers, 0, most_workers - 1)
is_complete = is_complete and #workers < most_workers
for _, worker in ipairs(workers) do
  for _, hold in ipairs(all_holds(worker)) do
    local lot = hold.lot
    if lot.c == c and (hold.domain == domain or hold.domain == site) then
      held[#held + 1] = { worker, hold.token, now - hold.since, hold.flags, lot.spider, lot.priority,
        hold.entry }
    end
  end
end

local is_known = fingerprint ~= '' and is_marked(c, domain, record, fingerprint)
local crawl = crawl_of(c)
local is_listed = crawl.is_scored and fingerprint ~= '' and listed_states(c, domain, { fingerprint })[1] > 0
return cmsgpack.pack({ tonumber(run), crawl.paused and 'paused' or crawl.state, is_known, queued,
  delayed, held, is_complete, is_listed or false,
  crawl.has_host_budget and (string.match(record.bands, '^[^,]+') or string.rep('0', 16) .. '-0') or '' })
