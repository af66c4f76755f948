-- The one way in: entries of one domain and priority into their band.
-- Guarantee: a fingerprint is marked only if its entry is admitted; a refused one leaves no trace
--   but its count under `filtered`. What is refused is counted by reason, never dropped silently.
-- Needs: clock, ledger, throttle, bands, dedupe. Cost: HMGET and HSET; per group SMISMEMBER, and where
--   something is new SCARD, SADD and RPUSH.
local function parse_domain_record(text)
  if not text then
    return { counted = 0, slab = NO_SLAB, own = 0, bands = '' }
  end
  local counted, slab, own, bands = string.match(text, '^(%d+) (%d+) (%d+) (.*)$')
  return { counted = tonumber(counted), slab = slab, own = tonumber(own), bands = bands }
end

local function domain_record_text(record)
  return int(record.counted) .. ' ' .. record.slab .. ' ' .. int(record.own) .. ' ' .. record.bands
end

local function save_domain_record(c, domain, record)
  redis.call('HSET', P .. 'k:' .. c, domain, domain_record_text(record))
end

-- Records of some domains of crawl c; the throttle states of those that are new to it are loaded.
local function load_domain_records(c, domains)
  local texts = redis.call('HMGET', P .. 'k:' .. c, unpack(domains))
  local records, new = {}, {}
  for i = 1, #domains do
    local domain = domains[i]
    if not records[domain] then
      records[domain] = parse_domain_record(texts[i])
      if not texts[i] then
        new[#new + 1] = domain
      end
    end
  end
  if scope == '' then
    load_states(new)
  end
  return records
end

local MANY_DOMAINS = 32

-- Many at once come with a long value, which has Redis keep them in a table for good: the compact form
-- is searched from end to end, and a broad crawl would pay for that until its 513th domain.
local function save_domain_records(c, records)
  local fields, n = {}, 0
  for domain, record in pairs(records) do
    fields[n + 1], fields[n + 2] = domain, domain_record_text(record)
    n = n + 2
  end
  if n > 2 * MANY_DOMAINS then
    redis.call('HSET', P .. 'k:' .. c, PAD, PADDING, unpack(fields))
    redis.call('HDEL', P .. 'k:' .. c, PAD)
  elseif n > 0 then
    redis.call('HSET', P .. 'k:' .. c, unpack(fields))
  end
end

local kinds = {}

-- What groups of one crawl, spider and priority have in common: their tag, and how the record of a
-- domain names their band.
local function kind_of(c, S, priority)
  local of_crawl = kinds[c] or {}
  local of_spider = of_crawl[S] or {}
  local kind = of_spider[priority]
  if not kind then
    local own_spider = string.match(crawl_of(c).name, '^[^:]*')
    kind = { tag = c .. '/' .. int(priority),
      band = ',' .. int(priority) .. (S ~= own_spider and '@' .. S or '') }
    kinds[c], of_crawl[S], of_spider[priority] = of_crawl, of_spider, kind
  end
  return kind
end

-- Note that the domain has a band of this priority and spider.
local function note_band(c, record, S, priority)
  local band, bands = kind_of(c, S, priority).band, record.bands
  if bands ~= band and not string.find(bands .. ',', band .. ',', 1, true) then
    record.bands = bands .. band
  end
end

local UNBOUNDED, NONE = 1e9, {}
local queue_caps

-- The operator's caps on what waits, of a crawl and in all; 0: none.
local function caps_on_queues()
  if not queue_caps then
    local caps = redis.call('HMGET', P .. 'm', 'most_of_crawl', 'most_of_all')
    queue_caps = { tonumber(caps[1] or 0), tonumber(caps[2] or 0) }
  end
  return queue_caps
end

-- How many more entries may wait, by the operator's caps, and the reason when it is none.
local function queue_room(c)
  caps_on_queues()
  local room, reason = UNBOUNDED, nil
  if queue_caps[1] > 0 then
    local waits = redis.call('HMGET', P .. 'x:' .. c, 'queued', 'delayed')
    local of = deltas[c] or {}
    room, reason = queue_caps[1] - tonumber(waits[1] or 0) - tonumber(waits[2] or 0)
      - (of.queued or 0) - (of.delayed or 0), 'crawl_full'
  end
  if queue_caps[2] > 0 then
    local waits = redis.call('HMGET', P .. 'totals', 'queued', 'delayed')
    local left = queue_caps[2] - tonumber(waits[1] or 0) - tonumber(waits[2] or 0)
    for _, of in pairs(deltas) do
      left = left - (of.queued or 0) - (of.delayed or 0)
    end
    if left < room then
      room, reason = left, 'frontier_full'
    end
  end
  return room, reason
end

-- How many more pages the caps of a crawl let into a domain, and the reason when it is none.
local function room_for(c, record, domain_cap, crawl_cap)
  local room, reason = queue_room(c)
  if domain_cap >= 0 and domain_cap - record.counted < room then
    room, reason = domain_cap - record.counted, 'domain_max_pages'
  end
  if crawl_cap >= 0 then
    local counted = tonumber(redis.call('HGET', P .. 'x:' .. c, 'counted') or 0)
      + (deltas[c] and deltas[c].counted or 0)
    if crawl_cap - counted < room then
      room, reason = crawl_cap - counted, 'max_pages'
    end
  end
  return math.max(room, 0), reason
end

-- The first `n` of a list.
local function first(list, n)
  local cut = {}
  for i = 1, math.min(n, #list) do
    cut[i] = list[i]
  end
  return cut
end

-- The new ones of a group: fingerprints to mark, entries to queue. Lists are dear in Lua, and most
-- groups are of one link, which needs none; without caps it is marked at once.
local function select_new(c, record, group, caps)
  local domain, fingerprints, entries = group[1], group[5], group[6]
  if #fingerprints == 1 and not caps then
    local is_new = mark_one(c, domain, record, fingerprints[1])
    return NONE, (is_new or group.seed) and entries or NONE
  elseif #fingerprints == 1 then
    local is_known = is_marked(c, domain, record, fingerprints[1])
    return is_known and NONE or fingerprints, is_known and not group.seed and NONE or entries
  end
  local hits = #fingerprints > 0 and known(c, domain, record, fingerprints)
  local marks, chosen, marked, n = {}, {}, {}, 0
  for i = 1, #fingerprints do
    local fingerprint = fingerprints[i]
    if hits[i] ~= 1 and not marked[fingerprint] then
      n = n + 1
      marks[n], chosen[n], marked[fingerprint] = fingerprint, entries[i], true
    end
  end
  return marks, chosen
end

-- Note that a domain has a band, in its record as it is stored.
local function note_band_at(c, domain, S, priority)
  local record = parse_domain_record(redis.call('HGET', P .. 'k:' .. c, domain))
  note_band(c, record, S, priority)
  save_domain_record(c, domain, record)
end

-- Queue admitted entries of a group, or keep them back until `due`; `record` is that of its domain.
local function enqueue(c, record, group, entries, due)
  local domain, priority, S = group[7] or group[1], group[2], group[3]
  if group[7] then
    note_band_at(c, domain, S, priority)
  else
    note_band(c, record, S, priority)
  end
  local tag = kind_of(c, S, priority).tag
  count(c, 'admitted', #entries)
  if due then
    count(c, 'delayed', #entries)
    for i = 1, #entries do
      delay(S, domain, tag, entries[i], due, false)
    end
  else
    count(c, 'queued', #entries)
    push(S, domain, tag, priority, entries, false)
  end
end

-- Admit one group. Answers how many entered, how many were duplicates, and the cap that refused
-- others.
local function admit_group(c, group, record, caps, due)
  local marks, entries = select_new(c, record, group, caps)
  local entered, refusal = #entries, nil
  local duplicates = #group[5] - entered
  if entered == 0 then
    return 0, duplicates
  end
  local counts = group[4]
  if counts and caps then
    local room, reason = room_for(c, record, caps[1], caps[2])
    if room < entered then
      count(c, 'z:' .. reason, entered - room)
      marks, entries, entered, refusal = first(marks, room), first(entries, room), room, reason
    end
  end
  if entered > 0 then
    mark(c, group[1], record, marks)
    if counts then
      record.counted = record.counted + entered
      count(c, 'counted', entered)
    end
    enqueue(c, record, group, entries, due)
  end
  return entered, duplicates, refusal
end

-- Admit groups {domain, priority, spider, counts, fingerprints, entries, site} of crawl c, in order.
-- With a site they wait under its name; dedupe and caps are those of the domain.
-- A seed (`seed`) is a group of its own and always enters.
-- Entries are complete (header and body). Caps are -1 where there is none. `due` keeps the entries
-- back until then. Answers how many entered, and a cap that refused others.
local function admit(c, groups, domain_cap, crawl_cap, due)
  if #groups == 0 then
    return 0
  end
  local domains = {}
  for i = 1, #groups do
    domains[i] = groups[i][1]
  end
  local of_operator = caps_on_queues()
  local has_caps = domain_cap >= 0 or crawl_cap >= 0 or of_operator[1] > 0 or of_operator[2] > 0
  local caps = has_caps and { domain_cap, crawl_cap }
  local records, changed = load_domain_records(c, domains), {}
  local admitted, duplicates, refusal = 0, 0, nil
  for i = 1, #groups do
    local record = records[domains[i]]
    local entered, repeated, refused_by = admit_group(c, groups[i], record, caps, due)
    admitted, duplicates, refusal = admitted + entered, duplicates + repeated, refusal or refused_by
    if entered > 0 then
      changed[domains[i]] = record
    end
  end
  save_domain_records(c, changed)
  if duplicates > 0 then
    count(c, 'z:duplicate', duplicates)
  end
  return admitted, refusal
end

-- Admit what a page of crawl c led to; answers how many entered, and what refused others. What comes
-- after the run's end is counted.
local function admit_children(c, groups, domain_cap, crawl_cap)
  if is_open(c) then
    return admit(c, groups, domain_cap, crawl_cap)
  end
  for i = 1, #groups do
    count(c, 'z:ended_run', #groups[i][5])
  end
  return 0, 'ended_run'
end
