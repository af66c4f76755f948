-- Admission of links into their bands; no other code queues new pages.
-- Guarantee: a fingerprint is marked only if its entry is admitted; a refused one leaves no trace
--   but its count under `filtered`. Refusals are counted by reason, never dropped silently.
-- Links travel as one flat list, because tables are expensive in Lua; the reader keeps its position:
--   for each lot   priority, spider, do they count for caps, site|'', number of groups; instead of true, links of a
--                  crawl with a score have 2, or 3 if their worker has found them for the third time; those of a
--                  crawl with a host budget a text (see `host_budgets`)
--   for each group domain, n, n fingerprints, n entries (header and body, or a body with a separate header)
--   With a site they wait under its name; dedupe and caps are those of the domain.
-- Needs: clock, ledger, throttle, bands, dedupe. Cost: HMGET and HSET; per group SMISMEMBER, and for
--   new fingerprints SCARD, SADD and RPUSH.
--- include: domains
--- include: credits
--- include: domain_budgets

-- Add the domains of a list of links to `domains`.
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

-- Return the common terms of links of one crawl, spider and priority: their tag, the prefix of the keys of
-- their bands, and the name of such a band in the record of a domain.
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

-- Return the priorities of a domain's bands by spider, as the record names it, and their number (`n`).
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

-- Return the next lower of some priorities, or the lowest; only those of the last band for one of it, and only
-- others for others. nil if there is none.
local function nearest(priorities, priority)
  local below, lowest
  for i = 1, #priorities do
    local one = priorities[i]
    if (one <= LAST_BAND) == (priority <= LAST_BAND) then
      lowest = lowest and math.min(lowest, one) or one
      below = one < priority and math.max(below or one, one) or below
    end
  end
  return below or lowest
end

-- Note in the record of a domain that it has a band of this kind; return the kind of the band that
-- takes the links: if there are too many, a band of an existing priority. A spider without a band always
-- gets one, and a last band. Each band has at least two characters in the record.
local function note_band(c, record, kind)
  local bands, band = record.bands, kind.band
  if bands == band or string.find(bands .. ',', band .. ',', 1, true) then
    return kind
  end
  local MOST_BANDS = 64
  if #bands >= 2 * MOST_BANDS and taken_in(record).n >= MOST_BANDS then
    local near = nearest(record.taken[string.match(band, '@.*$') or ''] or {}, kind.priority)
    if near then
      return kind_of(c, kind.spider, near)
    end
  end
  record.bands, record.taken = bands .. band, nil
  return kind
end

-- Note a band like `note_band`, for a domain whose record may not be loaded.
local function note_band_at(c, domain, S, priority)
  local record = load_domain_records(c, { domain })[domain]
  local kind = note_band(c, record, kind_of(c, S, priority))
  changed_of(c)[domain] = record
  save_domain_records()
  return kind
end

local queue_caps

-- Return the operator's caps on queued entries, of a crawl and in all, and the length from which a band
-- goes to the shelf; 0: none.
local function caps_on_queues()
  if not queue_caps then
    local caps = redis.call('HMGET', K.meta, 'most_of_crawl', 'most_of_all', 'shelve_at')
    queue_caps = { tonumber(caps[1] or 0), tonumber(caps[2] or 0), tonumber(caps[3] or 0) }
  end
  return queue_caps
end

-- Return how many more entries may wait by the operator's caps, and the reason if none.
local function queue_room(c)
  caps_on_queues()
  local UNBOUNDED = 1e9
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

-- Return the caps that may refuse links: of a domain and of a crawl, -1 for none, and the operator's;
-- nil if nothing can refuse them.
local function caps_of(domain_cap, crawl_cap)
  local of_operator = caps_on_queues()
  if domain_cap >= 0 or crawl_cap >= 0 or of_operator[1] > 0 or of_operator[2] > 0 then
    return { domain = domain_cap, crawl = crawl_cap }
  end
  return nil
end

-- Return how many more pages of a domain the caps of a crawl admit, and the reason if none. The cap of a
-- crawl in several partitions is enforced by credits.
local function room_for(c, record, caps)
  if record.spent then
    return 0, 'domain_budget'
  end
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

-- Select the new links of a domain, with fingerprints from list[first] on and as many entries behind them.
-- Return a list, the places in it where fingerprints and entries begin, and their number.
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

-- Count admitted links.
local function count_entered(terms, amount)
  local c = terms.c
  count(c, 'admitted', amount)
  count(c, terms.due and 'delayed' or 'queued', amount)
  if terms.counts then
    count(c, 'counted', amount)
  end
end

-- Return some entries of a list, each with a header before it.
local function with_header(header, list, first, last)
  local entries = {}
  for i = first, last do
    entries[i - first + 1] = header .. list[i]
  end
  return entries
end

-- Queue admitted entries of a domain, `amount` from list[first] on, or delay them until they are
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
      delays.add(kind.spider, domain, kind.tag, list[i], due, false)
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

-- Split the fingerprints of links that do not count for caps: targets of redirects. The target of a seed's redirect
-- has two: its own and, behind a blank, that of its page. The first decides on admission, and stays in the list; the
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

--- include: inlinks

-- Return the functions of `host_budgets`.
local made_host_budgets
local host_budgets =
--- function: host_budgets

-- Admit a group of `amount` links, fingerprints from links[at] on. Return the numbers of admitted links and of
-- duplicates, and the cap that refused others. A single one is marked by its lookup,
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
  if terms.linked then
    terms.linked.see(terms, domain, links, at, amount, n < amount or not is_new)
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
    if terms.linked then
      terms.linked.enter(terms, domain, record, { list, marks, entries, n })
    else
      enqueue(terms, domain, record, list, entries, n)
    end
    changed_of(c)[domain] = record
  end
  for i = 1, pages and #pages or 0 do
    mark_one(c, domain, record, pages[i])
  end
  return n, duplicates, refusal
end

-- Admit links into crawl c, in order; the records of their domains are loaded. `caps` as from `caps_of`.
-- `seed` ({due}) for a seed: it comes alone and is admitted also if it is known; with a `due` it is
-- delayed until then. `header` for entries without one; `from` is the domain of their page. Return the number admitted,
-- and a cap or budget that refused others.
local function admit(c, links, caps, seed, header, from)
  local due, is_seed = seed and seed.due, seed and true
  local records, admitted, duplicates, refusal = records_of[c], 0, 0, nil
  local at, uncounted = 1, 0
  local SOME_SPENT = 12
  if not seed and crawl_of(c).used == SOME_SPENT then
    local domains = add_domains(links, {})
    local spent = spent_budgets(c, domains)
    for _, domain in ipairs(domains) do
      records[domain].spent = spent[domain]
    end
    caps = caps or { domain = -1, crawl = -1 }
  end
  while links[at] do
    local priority, S, counts, site, groups = unpack(links, at, at + 4)
    local terms = { c = c, kind = kind_of(c, S, priority), counts = counts, caps = caps, due = due,
      site = site ~= '' and site or nil, is_seed = is_seed, header = header, from = from,
      linked = counts and counts ~= true and (tonumber(counts) and promotion() or host_budgets().of(counts)) }
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

-- Admit the links of a page of crawl c; return the number admitted, and the cap that refused others. Links
-- that come after the run's end are only counted.
local function admit_children(c, links, caps, header, from)
  if is_open(c) then
    return admit(c, links, caps, nil, header, from)
  end
  count(c, 'z:ended_run', amount_of(links))
  return 0, 'ended_run'
end
