#!lua flags=no-writes
-- top: return the entries of a crawl that are next in their domains.
-- Guarantee: one moment, no effect. An answer that is cut off says so. The order within a domain is exact;
--   domains are taken by the time when they are due, and by rank if it is equal.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 name of the crawl, 2 most entries of a domain, and of delayed entries.
-- Returns: packed {run, state, is it complete, domains, delayed, profiles, shift of its priorities}; {} for an unknown
--   crawl
--   domains  {spider, domain, due_ms from now|-1 (parked), rule|'', bands {ahead, standing, {entry …} …}};
--            `ahead`: entries of other crawls that come before those of the band
--   delayed  {spider, domain, due_ms from now, standing, entry}
--   profiles number -> bytes, of some entries
-- Cost: about 40 commands, 0.3 to 1.7 million instructions, whatever the size of the crawl; with groups, up to five
--   more for each domain that waits in a gate, and four for each page of a crawl with a score.
--   If the crawl has up to MOST_DOMAINS domains, all are examined; else the
--   first of the spider's indexes, which belong to any crawl.
--- include: present
--- include: listed
local name, most = ARGV[1], tonumber(ARGV[2])
local c, run, live = string.match(redis.call('HGET', K.names, name) or '', '^(%d+) (%d+) (%d)$')
if not c then
  return cmsgpack.pack({})
end
-- The forms of `bands`, `views` and `clock`, whose includes cost more than all else here.
local SEVERAL, PADDING, GATE, FOREVER, TAG = '*', '#', '=', 9e15, '^(%d+)/(-?%d+)$'
local clock, wall, scope, sites = unpack(redis.call('HMGET', K.meta, 'clock', 'wall', 'scope', 'sites'))
local has_groups = string.find(sites or '', ' =', 1, true) ~= nil
local time = redis.call('TIME')
local now = tonumber(clock or 0) + math.max(time[1] * 1000 + math.floor(time[2] / 1000) - tonumber(wall or 0), 0)
local is_by_group = string.find(scope or '', 'group', 1, true) ~= nil
local shift = tonumber(redis.call('HGET', K.shifts, c) or 0)
local MOST_DOMAINS, MOST_SPIDERS, MOST_VIEWS, MOST_BANDS, MOST_PROFILES = 16, 4, 4, 8, 8
local MOST_READS, MOST_ENTRIES = 24, 100
local is_complete, reads, numbers, profiles = true, 0, 0, {}

-- Return the domains of the crawl, or those that are next for a spider if the crawl has many.
local function domains_of(views)
  local domains, is_listed = {}, {}
  local function list(names, V)
    for _, domain in ipairs(names) do
      if string.sub(domain, 1, 1) == GATE then
        list(redis.call('ZRANGE', K.at_gate(V, domain), 0, MOST_DOMAINS - 1))
      elseif string.sub(domain, 1, 1) ~= PADDING and not is_listed[domain] and #domains < 2 * MOST_DOMAINS then
        domains[#domains + 1], is_listed[domain] = domain, true
      end
    end
  end
  if redis.call('HLEN', K.domains(c)) <= MOST_DOMAINS + 1 then
    list(redis.call('HKEYS', K.domains(c)))
    return domains
  end
  is_complete = false
  for _, V in ipairs(views) do
    list(redis.call('ZRANGE', K.ready(V), 0, MOST_DOMAINS - 1), V)
    list(redis.call('ZRANGE', K.waiting(V), 0, MOST_DOMAINS - 1), V)
  end
  return domains
end

-- Return the gate in which a domain waits in a view, with its rank there; nil if it waits in none (see `gates`).
local function gate_around(V, domain)
  local names = { domain }
  repeat
    names[#names + 1] = string.match(names[#names], '%.(.+)$')
  until not string.find(names[#names], '.', 1, true)
  local found = redis.call('HMGET', K.members, unpack(names))
  found[#names + 1] = redis.call('HGET', K.located, domain)
  for _, gate in ipairs(found) do
    local score = gate and redis.call('ZSCORE', K.at_gate(V, gate), domain)
    if score then
      return gate, score
    end
  end
end

-- Return the time when the gate is due in which a domain of a view waits, and the domain's rank there; nil without one.
local function place_in_gate(V, domain)
  local gate, score = gate_around(V, domain)
  local is_ready = gate and redis.call('ZSCORE', K.ready(V), gate)
  return is_ready and now or gate and redis.call('ZSCORE', K.waiting(V), gate), score
end

-- Note for each domain the first time when one of the views may take it, and its rank then.
local function places_of(views, domains)
  local due, ranks = {}, {}
  for _, V in ipairs(views) do
    local ready = redis.call('ZMSCORE', K.ready(V), unpack(domains))
    local waiting = redis.call('ZMSCORE', K.waiting(V), unpack(domains))
    for i = 1, #domains do
      local in_gate
      if has_groups and not ready[i] and not waiting[i] then
        waiting[i], in_gate = place_in_gate(V, domains[i])
      end
      local at = ready[i] and 0 or waiting[i] and math.max(tonumber(waiting[i]) - now, 0)
      if at and at < (due[i] or FOREVER) then
        due[i], ranks[i] = at, tonumber(ready[i] or in_gate or 0)
      end
    end
  end
  return due, ranks
end

-- Note the profiles of entries, a bounded number.
local function note_profiles(entries)
  for _, entry in ipairs(entries) do
    local number = string.match(entry, '^%d+')
    if number and not profiles[number] and numbers < MOST_PROFILES then
      profiles[number], numbers = redis.call('HGET', K.profiles(c), number) or '', numbers + 1
    end
  end
end

-- Return the entries whose pages wait, each page once, without their marks (see `inlinks`). `seen`: by fingerprint.
local function pages_of(at, entries, seen)
  local MARK, pages = '^(%d+)!(%-?%d+) (%S*) (,.*)$', {}
  for _, entry in ipairs(entries) do
    local number, fingerprint, domain, body = string.match(entry, MARK)
    local is_page = not number
    if number and not seen[fingerprint] then
      seen[fingerprint] = true
      is_page = listed_states(c, domain ~= '' and domain or at, { fingerprint })[1] > 0
    end
    pages[#pages + 1] = is_page and (number and number .. body or entry) or nil
  end
  return pages
end

-- Return the bands of the crawl in a domain, best first, with up to `limit` entries in all.
local function bands_in(S, domain, o, limit)
  local tags, bands, ahead, seen = { o }, {}, 0, {}
  if o == SEVERAL then
    tags, reads = redis.call('ZRANGE', K.several(S, domain), 0, MOST_BANDS), reads + 1
  end
  for i, tag in ipairs(tags) do
    local of, priority = string.match(tag, TAG)
    local key = K.band(S, tag, domain)
    if limit <= 0 or i > MOST_BANDS then
      is_complete = false
      break
    end
    reads = reads + 1
    if of == c then
      local entries = pages_of(domain, redis.call('LRANGE', key, 0, limit - 1), seen)
      limit = limit - #entries
      bands[#bands + 1], bands[#bands + 2] = ahead, priority + shift
      bands[#bands + 1] = entries
      note_profiles(entries)
    else
      ahead = ahead + redis.call('LLEN', key)
    end
  end
  return bands
end

local found = {}

-- Add the domains of one spider that have entries of the crawl.
local function add_spider(S)
  local views = is_by_group and redis.call('HKEYS', K.views(S)) or { S }
  views = { unpack(views, 1, MOST_VIEWS) }
  local domains = domains_of(views)
  if #domains == 0 then
    return
  end
  local o = redis.call('HMGET', K.tags(S), unpack(domains))
  local due, ranks = places_of(views, domains)
  local order = {}
  for i = 1, #domains do
    if o[i] and (o[i] == SEVERAL or string.match(o[i], TAG) == c) then
      order[#order + 1] = i
    end
  end
  table.sort(order, function(a, b)
    local first, second = due[a] or FOREVER, due[b] or FOREVER
    return first < second or first == second and (ranks[a] or 0) < (ranks[b] or 0)
  end)
  local share = math.min(most, math.max(math.floor(MOST_ENTRIES / math.max(#order, 1)), 2))
  local rules = redis.call('HMGET', K.rules, '', unpack(domains))
  for _, i in ipairs(order) do
    if reads >= MOST_READS then
      is_complete = false
      break
    end
    local bands = bands_in(S, domains[i], o[i], share)
    if #bands > 0 then
      found[#found + 1] = { S, domains[i], due[i] or -1, rules[i + 1] or rules[1] or '', bands }
    end
  end
end

local delayed = {}
local spiders = live == '1' and redis.call('SMEMBERS', K.spiders) or {}
is_complete = is_complete and #spiders <= MOST_SPIDERS
for n = 1, math.min(#spiders, MOST_SPIDERS) do
  local S = spiders[n]
  add_spider(S)
  local entries = redis.call('ZRANGE', K.delayed(S, c), 0, most - 1, 'WITHSCORES')
  for i = 1, #entries, 2 do
    local priority, domain, entry = string.match(entries[i], '^%d+ %a (%S+) (%S+) (.*)$')
    delayed[#delayed + 1] = { S, domain, math.max(tonumber(entries[i + 1]) - now, 0), priority + shift, entry }
    note_profiles({ entry })
  end
end
local state, is_paused = unpack(redis.call('HMGET', K.ledger(c), 'state', 'paused'))
return cmsgpack.pack({ tonumber(run), is_paused and 'paused' or state, is_complete, found, delayed, profiles, shift })
