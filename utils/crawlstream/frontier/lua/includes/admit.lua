-- The one way in: entries of one domain and priority into their band.
-- Guarantee: a fingerprint is marked only if its entry is admitted; a refused one leaves no trace
--   but its count under `filtered`. What is refused is counted by reason, never dropped silently.
-- Needs: clock, ledger, throttle, bands, dedupe. Cost: per group HGET, SMISMEMBER, SADD, RPUSH, HSET.
local function parse_domain_record(text)
  if not text then
    return { counted = 0, slab = 0, own = 0, bands = '' }
  end
  local counted, slab, own, bands = string.match(text, '^(%d+) (%d+) (%d+) (.*)$')
  return { counted = tonumber(counted), slab = tonumber(slab), own = tonumber(own), bands = bands }
end

local function domain_record_text(record)
  return string.format('%d %d %d %s', record.counted, record.slab, record.own, record.bands)
end

local function save_domain_record(c, domain, record)
  redis.call('HSET', P .. 'k:' .. c, domain, domain_record_text(record))
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
  local room, reason = 1e9, nil
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
  if domain_cap and domain_cap - record.counted < room then
    room, reason = domain_cap - record.counted, 'domain_max_pages'
  end
  if crawl_cap then
    local counted = tonumber(redis.call('HGET', P .. 'x:' .. c, 'counted') or 0)
      + (deltas[c] and deltas[c].counted or 0)
    if crawl_cap - counted < room then
      room, reason = crawl_cap - counted, 'max_pages'
    end
  end
  return math.max(room, 0), reason
end

-- The new ones of a group, as far as there is room: fingerprints to mark, entries to queue, and how
-- many were duplicates. A seed always enters.
local function select_new(group, seen, room)
  local fingerprints, entries = group[5], group[6]
  local marks, chosen, duplicates = {}, {}, 0
  for i = 1, #fingerprints do
    local fingerprint = fingerprints[i]
    if seen[fingerprint] and not group.seed then
      duplicates = duplicates + 1
    elseif #chosen < room then
      chosen[#chosen + 1] = entries[i]
      if not seen[fingerprint] then
        marks[#marks + 1] = fingerprint
        seen[fingerprint] = true
      end
    end
  end
  return marks, chosen, duplicates
end

-- Queue admitted entries of a group, or keep them back until `due`.
local function enqueue(c, group, entries, due)
  local domain, priority, S = group[1], group[2], group[3]
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

-- Admit a group {domain, priority, spider, counts, fingerprints, entries} of crawl c.
-- Entries are complete (header and body). `due` keeps them back until then. Answers how many entered,
-- and the cap that refused others.
local function admit(c, group, domain_cap, crawl_cap, due)
  local domain, priority, S, counts, fingerprints = group[1], group[2], group[3], group[4], group[5]
  if #fingerprints == 0 then
    return 0
  end
  local record = parse_domain_record(redis.call('HGET', P .. 'k:' .. c, domain))
  local seen = known(c, domain, record, fingerprints)
  local room, reason = 1e9, nil
  if counts then
    room, reason = room_for(c, record, domain_cap, crawl_cap)
  end
  local marks, entries, duplicates = select_new(group, seen, room)
  local refused = #fingerprints - duplicates - #entries
  if duplicates > 0 then
    count(c, 'z:duplicate', duplicates)
  end
  if refused > 0 then
    count(c, 'z:' .. reason, refused)
  end
  if #entries == 0 then
    return 0, reason
  end
  mark(c, domain, record, marks)
  if counts then
    record.counted = record.counted + #entries
    count(c, 'counted', #entries)
  end
  note_band(c, record, S, priority)
  save_domain_record(c, domain, record)
  enqueue(c, group, entries, due)
  return #entries
end
