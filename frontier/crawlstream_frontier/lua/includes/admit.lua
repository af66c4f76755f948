-- The one way in: links into their bands.
-- Guarantee: a fingerprint is marked only if its entry is admitted; a refused one leaves no trace
--   but its count under `filtered`. What is refused is counted by reason, never dropped silently.
-- Links travel as one flat list, for tables are dear in Lua; whoever reads it moves along:
--   for each lot   priority, spider, do they count for caps, site|'', groups: how many follow
--   for each group domain, n, n fingerprints, n entries (header and body, or a body whose header comes beside)
--   With a site they wait under its name; dedupe and caps are those of the domain.
-- Needs: clock, ledger, throttle, bands, dedupe. Cost: HMGET and HSET; per group SMISMEMBER, and where
--   something is new SCARD, SADD and RPUSH.
--- include: domains
--- include: credits

-- The domains of a list of links, added to `domains`.
local function add_domains(links, domains)
  local at, n = 1, #domains
  while links[at] do
    local groups = links[at + 4]
    at = at + 5
    for _ = 1, groups do
      n = n + 1
      domains[n], at = links[at], at + 2 + 2 * links[at + 1]
    end
  end
  return domains
end

local function amount_of(links)
  local at, amount = 1, 0
  while links[at] do
    local groups = links[at + 4]
    at = at + 5
    for _ = 1, groups do
      amount, at = amount + links[at + 1], at + 2 + 2 * links[at + 1]
    end
  end
  return amount
end

local kinds = {}

-- What links of one crawl, spider and priority have in common: their tag, what the keys of their bands
-- begin with, and how the record of a domain names such a band.
local function kind_of(c, S, priority)
  local of_crawl = kinds[c] or {}
  local of_spider = of_crawl[S] or {}
  local kind = of_spider[priority]
  if not kind then
    local own_spider, tag = string.match(crawl_of(c).name, '^[^:]*'), c .. '/' .. int(priority)
    kind = { spider = S, priority = priority, tag = tag, bands = K.band(S, tag, ''),
      band = ',' .. int(priority) .. (S ~= own_spider and '@' .. S or '') }
    kinds[c], of_crawl[S], of_spider[priority] = of_crawl, of_spider, kind
  end
  return kind
end

local MOST_BANDS = 64

-- The priorities of a domain's bands by spider, as the record names it, and how many they are (`n`).
local function taken_in(record)
  local taken = record.taken
  if not taken then
    taken = { n = 0 }
    for priority, S in string.gmatch(record.bands, ',(-?%d+)(@?[^,]*)') do
      local of_spider = taken[S] or {}
      taken[S], taken.n = of_spider, taken.n + 1
      of_spider[#of_spider + 1] = tonumber(priority)
    end
    record.taken = taken
  end
  return taken
end

-- The next lower of some priorities, or the lowest.
local function nearest(priorities, priority)
  local below, lowest = nil, priorities[1]
  for i = 1, #priorities do
    local one = priorities[i]
    lowest = one < lowest and one or lowest
    if one < priority and (not below or one > below) then
      below = one
    end
  end
  return below or lowest
end

-- Note in the record of a domain that it has a band of this kind; answers the kind of the band that
-- takes the links: where there are too many, of a priority that is there. A spider that has none yet
-- gets one. Each band has two characters in the record at least.
local function note_band(c, record, kind)
  local bands, band = record.bands, kind.band
  if bands == band or string.find(bands .. ',', band .. ',', 1, true) then
    return kind
  end
  if #bands >= 2 * MOST_BANDS and taken_in(record).n >= MOST_BANDS then
    local priorities = record.taken[string.match(band, '@.*$') or '']
    if priorities then
      return kind_of(c, kind.spider, nearest(priorities, kind.priority))
    end
  end
  record.bands, record.taken = bands .. band, nil
  return kind
end

-- The same for a domain whose record may not be loaded.
local function note_band_at(c, domain, S, priority)
  local record = load_domain_records(c, { domain })[domain]
  local kind = note_band(c, record, kind_of(c, S, priority))
  changed_of(c)[domain] = record
  save_domain_records()
  return kind
end

local UNBOUNDED = 1e9
local queue_caps

-- The operator's caps on what waits, of a crawl and in all, and from which length on a band is one for
-- the shelf; 0: none.
local function caps_on_queues()
  if not queue_caps then
    local caps = redis.call('HMGET', K.meta, 'most_of_crawl', 'most_of_all', 'shelve_at')
    queue_caps = { tonumber(caps[1] or 0), tonumber(caps[2] or 0), tonumber(caps[3] or 0) }
  end
  return queue_caps
end

-- How many more entries may wait, by the operator's caps, and the reason when it is none.
local function queue_room(c)
  caps_on_queues()
  local room, reason = UNBOUNDED, nil
  if queue_caps[1] > 0 then
    local waits = redis.call('HMGET', K.ledger(c), 'queued', 'delayed')
    local of = deltas[c] or {}
    room, reason = queue_caps[1] - tonumber(waits[1] or 0) - tonumber(waits[2] or 0)
      - (of.queued or 0) - (of.delayed or 0), 'crawl_full'
  end
  if queue_caps[2] > 0 then
    local waits = redis.call('HMGET', K.totals, 'queued', 'delayed')
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

-- The caps that may refuse links: of a domain and of a crawl, -1 where there is none, and the operator's.
-- nil where nothing can.
local function caps_of(domain_cap, crawl_cap)
  local of_operator = caps_on_queues()
  if domain_cap >= 0 or crawl_cap >= 0 or of_operator[1] > 0 or of_operator[2] > 0 then
    return { domain = domain_cap, crawl = crawl_cap }
  end
  return nil
end

-- How many more pages the caps of a crawl let into a domain, and the reason when it is none. That of a
-- crawl in several partitions is a matter of credits.
local function room_for(c, record, caps)
  local room, reason = queue_room(c)
  if caps.domain >= 0 and caps.domain - record.counted < room then
    room, reason = caps.domain - record.counted, 'domain_max_pages'
  end
  if caps.crawl >= 0 and not crawl_of(c).context then
    local counted = tonumber(redis.call('HGET', K.ledger(c), 'counted') or 0)
      + (deltas[c] and deltas[c].counted or 0)
    if caps.crawl - counted < room then
      room, reason = caps.crawl - counted, 'max_pages'
    end
  end
  return math.max(room, 0), reason
end

-- Those of some links of a domain, fingerprints from list[first] on and as many entries behind them,
-- that are new: a list, where their fingerprints and their entries begin in it, and how many they are.
local function select_new(c, domain, record, list, first, amount)
  local hits = known(c, domain, record, list, first, amount)
  local new, is_seen, n = {}, {}, 0
  for i = 1, amount do
    local fingerprint = list[first + i - 1]
    if hits[i] ~= 1 and not is_seen[fingerprint] then
      n = n + 1
      new[n], is_seen[fingerprint] = first + i - 1, true
    end
  end
  if n == amount then
    return list, first, first + amount, n
  end
  local chosen = {}
  for i = 1, n do
    chosen[i] = list[new[i]]
  end
  for i = 1, n do
    chosen[n + i] = list[new[i] + amount]
  end
  return chosen, 1, n + 1, n
end

-- Count links that have entered.
local function count_entered(terms, amount)
  local c = terms.c
  count(c, 'admitted', amount)
  count(c, terms.due and 'delayed' or 'queued', amount)
  if terms.counts then
    count(c, 'counted', amount)
  end
end

-- Some entries of a list, with what comes before each.
local function with_header(header, list, first, last)
  local entries = {}
  for i = first, last do
    entries[i - first + 1] = header .. list[i]
  end
  return entries
end

-- Queue admitted entries of a domain, `amount` from list[first] on, or keep them back until they are
-- due. `terms` as in `admit`; `record` is that of the domain.
local function enqueue(terms, domain, record, list, first, amount)
  local c, kind, due = terms.c, terms.kind, terms.due
  if terms.site then
    domain = terms.site
    kind = note_band_at(c, domain, kind.spider, kind.priority)
  else
    kind = note_band(c, record, kind)
  end
  if due then
    for i = first, first + amount - 1 do
      delay(kind.spider, domain, kind.tag, list[i], due, false)
    end
    return
  end
  local last = first + amount - 1
  if terms.header then
    list, first, last = with_header(terms.header, list, first, last), 1, amount
  end
  if crawl_of(c).parts and append_to_tail(kind.spider, kind.tag, domain, list, first, last) then
    return
  end
  local length = redis.call('RPUSH', kind.bands .. domain, unpack(list, first, last))
  if length == amount then
    index_band(kind.spider, domain, kind.tag, kind.priority + shift_of(c))
  end
  if length >= queue_caps[3] and queue_caps[3] > 0 then
    band_parts().note_long(kind.spider, kind.tag, domain, length, amount, band_parts().shelve_at)
  end
end

-- Of links that do not count, which are targets of redirects: the fingerprint of one that a seed leads to is two,
-- its own and, behind a blank, that of its page. The first decides whether it enters, and stays in the list; the
-- others are returned, to be marked: a link to the page is a duplicate from now on.
local function pages_of(links, at, amount)
  local pages = {}
  for i = at, at + amount - 1 do
    local own, page = string.match(links[i], '^(%S+) (%S+)$')
    if page then
      links[i], pages[#pages + 1] = own, page
    end
  end
  return pages
end

-- Admit a group of `amount` links, fingerprints from links[at] on. Answers how many entered, how many
-- were duplicates, and the cap that refused others. A single one is marked while it is looked for,
-- unless a cap may refuse it.
local function admit_group(terms, domain, record, links, at, amount)
  local c, caps, is_new = terms.c, terms.caps, true
  local pages = not terms.counts and pages_of(links, at, amount)
  local list, marks, entries, n = links, at, at + amount, amount
  if amount > 1 then
    list, marks, entries, n = select_new(c, domain, record, links, at, amount)
  elseif caps then
    is_new = not is_marked(c, domain, record, links[at])
  else
    is_new = mark_one(c, domain, record, links[at])
  end
  if n == 0 or not is_new and not terms.is_seed then
    return 0, amount
  end
  local duplicates, refusal = amount - n, nil
  if terms.counts and caps then
    local room, reason = room_for(c, record, caps)
    if room < n then
      count(c, 'z:' .. reason, n - room)
      n, refusal = room, reason
    end
    if n > 0 and caps.crawl >= 0 and crawl_of(c).context then
      local credit_refusal
      n, credit_refusal = let_in(terms, domain, record.counted, { list, marks, entries, n })
      refusal = refusal or credit_refusal
    end
  end
  if n > 0 then
    if is_new and (caps or amount > 1) then
      mark(c, domain, record, list, marks, n)
    end
    if terms.counts then
      record.counted = record.counted + n
    end
    enqueue(terms, domain, record, list, entries, n)
    changed_of(c)[domain] = record
  end
  for i = 1, pages and #pages or 0 do
    mark_one(c, domain, record, pages[i])
  end
  return n, duplicates, refusal
end

-- Admit links into crawl c, in order; the records of their domains are loaded. `caps` as `caps_of` has
-- them. `seed` ({due}) if it is one: it comes alone and enters also if it is known; with a `due` it is
-- kept back until then. `header` of entries that have none. Answers how many entered, and a cap that refused others.
local function admit(c, links, caps, seed, header)
  local due, is_seed = seed and seed.due, seed and true
  local records, admitted, duplicates, refusal = records_of[c], 0, 0, nil
  local at, uncounted = 1, 0
  while links[at] do
    local priority, S, counts, site, groups = unpack(links, at, at + 4)
    local terms = { c = c, kind = kind_of(c, S, priority), counts = counts, caps = caps, due = due,
      site = site ~= '' and site or nil, is_seed = is_seed, header = header }
    at = at + 5
    for group = 1, groups do
      local domain, amount = links[at], links[at + 1]
      local entered, repeated, refused_by = admit_group(terms, domain, records[domain], links, at + 2, amount)
      admitted, duplicates, refusal = admitted + entered, duplicates + repeated, refusal or refused_by
      at, uncounted = at + 2 + 2 * amount, uncounted + entered
      if uncounted > 0 and (caps or group == groups) then
        count_entered(terms, uncounted)
        uncounted = 0
      end
    end
  end
  if duplicates > 0 then
    count(c, 'z:duplicate', duplicates)
  end
  return admitted, refusal
end

-- Admit what a page of crawl c led to; answers how many entered, and what refused others. What comes
-- after the run's end is counted.
local function admit_children(c, links, caps, header)
  if is_open(c) then
    return admit(c, links, caps, nil, header)
  end
  count(c, 'z:ended_run', amount_of(links))
  return 0, 'ended_run'
end
