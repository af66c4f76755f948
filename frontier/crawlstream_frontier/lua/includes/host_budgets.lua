-- Host budgets: in a crawl with one, b + e * n pages of a domain wait in their own bands, and the others fifty levels
--   lower, behind them and behind other domains of the crawl. n estimates how many trusted domains link to it: those of
--   seeds, and those with two such links. Without any, a domain has no such pages.
-- Guarantee: nothing is refused. When n grows, pages that wait lower move to their own bands, as many as have room; but
--   not those of bands in parts (see `parts`).
-- Links of such a crawl have a text instead of the number of their lot (see `admit`), "<number|0> <standing> <b> <e>".
--   Standing: '-', the domain of their page is not trusted; '+', it is, and is theirs; 's', the same, of a page that is
--   a seed; else the number of its bit, to other domains. Workers know from a lease whether its domain is trusted.
-- Record of a domain in `k:<c>`: "<counted> <slab> <own> <bits><s|-><pages><bands>", as soon as a standing says
--   something of it, or a page waits in its own band: 16 hexadecimal digits with a bit for each trusted domain that
--   links to it (linear counting), whether it is that of a seed, and how many pages were admitted to their own bands.
-- A lower band has 5 as its last digit. `recovered` in the ledger has 32 if there are such links.
-- In crawls that have a score as well, links of domains that are not trusted promote no page, and pages that wait lower
--   are not promoted.
-- Needs: clock, ledger, bands, admit, inlinks. Cost: an HMGET for the leases of a call; nothing for other crawls.
-- This is the text of a function (see `admit`): its own functions are created when it is called first.
if made_host_budgets then
  return made_host_budgets
end
local FORM, BANDS, HAS_BUDGET = '^(%x+)([s-])(%d+)', ',.*$', 32

-- Return functions for the priorities of lower bands, as `link_rules.host_budgets` has them.
local function lower_bands()
  local LOWER, LAST_DIGIT, TENS, LEAST, OF_LAST_BAND = 495, 5, 10, -7395, 5
  local of = {}

  function of.below(priority)
    return priority <= LAST_BAND and priority - OF_LAST_BAND or math.max(priority - LOWER, LEAST)
  end

  -- Return the priority of the band above a lower one; nil for another one.
  function of.above(priority)
    return priority > LAST_BAND and priority % TENS == LAST_DIGIT and priority + LOWER or nil
  end

  return of
end

-- Return functions for 64 bits, as hexadecimal digits.
local function bits_in_digits()
  local BITS_A_DIGIT, BITS, MOST = 4, 64, 200
  local of = {}

  -- Return the digits with one more bit; nil if they have it.
  function of.with(digits_of_bits, bit)
    local at, unit = math.floor(bit / BITS_A_DIGIT) + 1, 2 ^ (bit % BITS_A_DIGIT)
    local digit = tonumber(string.sub(digits_of_bits, at, at), 16)
    return digit % (2 * unit) < unit and string.sub(digits_of_bits, 1, at - 1)
      .. string.format('%x', digit + unit) .. string.sub(digits_of_bits, at + 1) or nil
  end

  function of.number(digits_of_bits)
    local ones = 0
    for digit in string.gmatch(digits_of_bits, '[^0]') do
      local left = tonumber(digit, 16)
      while left > 0 do
        ones, left = ones + left % 2, math.floor(left / 2)
      end
    end
    return ones
  end

  -- Return an estimate of the number of names that have set these bits, by the number of bits.
  function of.estimate(ones)
    return ones == BITS and MOST or -BITS * math.log((BITS - ones) / BITS)
  end

  return of
end

-- Return functions for what the record of a domain says of it: {bits, is_of_seed, pages}.
local function hosts_in_records()
  local NO_BITS, TWO = string.rep('0', 16), 2
  local of, bits = {}, bits_in_digits()

  function of.read(text)
    local some, kind, pages = string.match(text, FORM)
    return { bits = some or NO_BITS, is_of_seed = kind == 's', pages = tonumber(pages or 0) }
  end

  function of.write(c, domain, record, host)
    record.bands = host.bits .. (host.is_of_seed and 's' or '-') .. int(host.pages)
      .. (string.match(record.bands, BANDS) or '')
    changed_of(c)[domain] = record
  end

  -- Note what links say; return whether it is new.
  function of.add(host, said)
    local bit = tonumber(said)
    local more = bit and bits.with(host.bits, bit)
    local is_new = more or said == 's' and not host.is_of_seed
    host.bits, host.is_of_seed = more or host.bits, host.is_of_seed or said == 's'
    return is_new
  end

  function of.is_trusted(host)
    return host.is_of_seed or bits.number(host.bits) >= TWO
  end

  -- Return how many more pages may wait in their own bands.
  function of.room(host, base, each)
    local links = bits.number(host.bits)
    local has_any = links > 0 or host.is_of_seed
    return has_any and math.max(math.floor(base + each * bits.estimate(links)) - host.pages, 0) or 0
  end

  return of
end

-- Return a function that moves up to `room` pages of a domain from its lower bands to their own ones, and returns their
-- number.
local function raising(lower)
  -- Return the lower bands of a record, best first: {priority, spider …}.
  local function bands_in(c, record)
    local own_spider, bands = string.match(crawl_of(c).name, '^[^:]*'), {}
    for priority, S in string.gmatch(record.bands, ',(-?%d+)@?([^,]*)') do
      bands[#bands + 1] = lower.above(tonumber(priority)) and { tonumber(priority), S ~= '' and S or own_spider } or nil
    end
    table.sort(bands, function(a, b) return a[1] > b[1] or a[1] == b[1] and a[2] < b[2] end)
    return bands
  end

  return function(terms, domain, record, room)
    local c, at, left = terms.c, terms.site or domain, room
    for _, band in ipairs(bands_in(c, load_domain_records(c, { at })[at])) do
      local priority, S = unpack(band)
      local tag = c .. '/' .. int(priority)
      local entries = left > 0 and not shelf_notes().get(S, tag, at) and redis.call('LPOP', K.band(S, tag, at), left)
      if entries then
        local kind = kind_of(c, S, lower.above(priority))
        enqueue({ c = c, kind = kind, site = terms.site }, domain, record, entries, 1, #entries)
        left = left - #entries
      end
    end
    return room - left
  end
end

-- Return functions for links with a budget.
local function admission(lower, of_hosts)
  local of, raise_pages = {}, raising(lower)

  -- Note what links say of a domain.
  function of.note(terms, domain, record)
    local budget, host = terms.linked, of_hosts.read(record.bands)
    if of_hosts.add(host, budget.standing) then
      host.pages = host.pages + raise_pages(terms, domain, record, of_hosts.room(host, budget.base, budget.each))
      of_hosts.write(terms.c, domain, record, host)
    end
  end

  -- Queue pages that were just marked as known: {list, marks, entries, n} as in `admit_group`.
  function of.enter(terms, domain, record, group)
    local list, marked_at, entries, n = unpack(group)
    local c, budget, host = terms.c, terms.linked, of_hosts.read(record.bands)
    local room = math.min(of_hosts.room(host, budget.base, budget.each), n)
    if room > 0 then
      host.pages = host.pages + room
      of_hosts.write(c, domain, record, host)
      if budget.number > 0 then
        promotion().enter(terms, domain, record, { list, marked_at, entries, room })
      else
        enqueue(terms, domain, record, list, entries, room)
      end
    end
    if room < n then
      local kind = kind_of(c, terms.kind.spider, lower.below(terms.kind.priority))
      enqueue({ c = c, kind = kind, site = terms.site, header = terms.header }, domain, record, list, entries + room,
        n - room)
    end
  end

  return of
end

-- Return a function that returns the domains of leases {place, number of the lot, domain …} that are trusted: {crawl
-- number, domain …}. A site may be a part of a domain, which has one of the names that end its own.
local function trusting(of_hosts)
  return function(leases, lots_of_leases)
    local names_in, found = {}, {}
    for n = 1, #leases, 4 do
      local c, name = lots_of_leases[2 * leases[n + 1] - 1], string.match(leases[n + 2], '^[^=]*')
      local names = names_in[c] or {}
      names_in[c] = crawl_of(c).has_host_budget and names or nil
      while names_in[c] and name and not names[name] do
        names[#names + 1], names[name], name = name, true, string.match(name, '^[^.]*%.(.+)$')
      end
    end
    for c, names in pairs(names_in) do
      for i, text in ipairs(redis.call('HMGET', K.domains(c), unpack(names))) do
        local noted = text and string.match(text, '^%d+ %d+ %d+ (.*)$') or ''
        if of_hosts.is_trusted(of_hosts.read(noted)) then
          found[#found + 1], found[#found + 2] = c, names[i]
        end
      end
    end
    return found
  end
end

local hosts, texts = hosts_in_records(), {}
local admitting = admission(lower_bands(), hosts)
made_host_budgets = { trusted = trusting(hosts) }

-- Note that a crawl has a host budget.
function made_host_budgets.note_crawl(c)
  local crawl = crawl_of(c)
  if not crawl.has_host_budget then
    redis.call('HINCRBY', K.ledger(c), 'recovered', HAS_BUDGET)
    crawl.has_host_budget, has_host_budgets = true, true
  end
end

local function see(terms, domain, links, at, amount, has_known)
  made_host_budgets.note_crawl(terms.c)
  admitting.note(terms, domain, records_of[terms.c][domain])
  if terms.linked.number > 0 then
    promotion().see(terms, domain, links, at, amount, has_known)
  end
end

-- Return the functions for links with a text, as `promotion` does for others.
function made_host_budgets.of(text)
  local budget = texts[text]
  if not budget then
    local number, said, base, each = string.match(text, '^(%d) (%S+) (%d+) (%d+)$')
    budget = { number = tonumber(number), standing = said, base = tonumber(base), each = tonumber(each),
      weight = said == '-' and 0 or 1, see = see, enter = admitting.enter }
    texts[text] = budget
  end
  return budget
end

return made_host_budgets
