-- Promotion by in-links: in a crawl with a score, a waiting page to which a third link is found moves once, to a better
--   band, as a copy of its entry. If the third link is of its own domain, it moves only within the domain, which keeps
--   its rank among others (see `claim_of`).
-- Guarantee: a page is granted once, however many copies of it wait: the first one that is leased takes it from both
--   sets, and later ones end as redirected, for the reason `promoted`. An entry that was leased is an ordinary one from
--   then on. Copies are admitted, but do not count for caps.
-- Only links that workers have counted are listed: a page that waits outside of a band (delayed, in limbo, spilled), a
--   seed, the target of a redirect and a page of a last band are never promoted.
-- Entry in a band: profile number, '!', fingerprint, ' ', domain if it waits under another name, ' ,' and the body.
-- Sets of a crawl, each as `dedupe` has its fingerprints, named `<c>.1` or `<c>.2` instead of `<c>`: of pages that wait
--   and were not promoted, and of pages that wait and have a second link or were promoted.
-- `recovered` in the ledger has 16 if there are any.
-- Needs: clock, ledger, bands, dedupe, admit. Cost in crawls with a score: per group with new links SADD, with known
--   ones two SMISMEMBER, per leased page two SREM, and one HMGET per domain; nothing for others.
local promotion

-- Its functions are created when needed: defining one takes time in every call.
do
local WAITS, LINKED = '.1', '.2'
local made_sets, made_promotion

-- Return the functions that change the sets.
local function waiting_sets()
  if made_sets then
    return made_sets
  end
  local of = {}
  made_sets = of

  -- Return the keys of the sets of one kind in which a fingerprint may be, the likely one first.
  local function sets_with(c, domain, record, fingerprint)
    local keys = {}
    if record.own > 0 then
      keys[1] = own_key(c, domain, set_of(fingerprint, sets_for(record.own)))
    end
    if record.slab ~= NO_SLAB then
      keys[#keys + 1] = K.slab(c, record.slab)
    end
    return keys
  end

  function of.add(c, domain, record, fingerprint)
    redis.call('SADD', sets_with(c, domain, record, fingerprint)[1], fingerprint)
  end

  function of.remove(c, domain, record, fingerprint)
    for _, key in ipairs(sets_with(c, domain, record, fingerprint)) do
      if redis.call('SREM', key, fingerprint) == 1 then
        return true
      end
    end
    return false
  end

  -- List pages that were just marked as known.
  function of.list(c, domain, record, fingerprints)
    if record.own == 0 then
      redis.call('SADD', K.slab(c, record.slab), unpack(fingerprints))
      return
    end
    for set, part in pairs(spread(fingerprints, 1, #fingerprints, sets_for(record.own))) do
      redis.call('SADD', own_key(c, domain, set), unpack(part.fingerprints))
    end
  end

  return of
end

-- Return the functions that queue pages with marks. `terms` as in `admit`.
local function marked_entries()
  local MARK, SCORED, TENS = '!%s %s ,', 16, 10
  local of = {}

  local function with_mark(terms, domain, fingerprint, entry)
    local header = terms.header or string.match(entry, '^%d+,')
    return string.sub(header, 1, -2) .. string.format(MARK, fingerprint, terms.site and domain or '')
      .. (terms.header and entry or string.sub(entry, #header + 1))
  end

  -- Queue pages that were just marked as known, {list, marks, entries, n} as in `admit_group`, and list them.
  function of.enter(terms, domain, record, group)
    local c, list, marks, entries, n = terms.c, unpack(group)
    if terms.kind.priority <= LAST_BAND then
      return enqueue(terms, domain, record, list, entries, n)
    end
    local crawl, marked, fingerprints = crawl_of(c), {}, {}
    for i = 1, n do
      fingerprints[i] = list[marks + i - 1]
      marked[i] = with_mark(terms, domain, fingerprints[i], list[entries + i - 1])
    end
    if not crawl.is_scored then
      redis.call('HINCRBY', K.ledger(c), 'recovered', SCORED)
      crawl.is_scored, has_scored = true, true
    end
    waiting_sets().list(c .. WAITS, domain, record, fingerprints)
    enqueue({ c = c, kind = terms.kind, site = terms.site }, domain, record, marked, 1, n)
  end

  -- Put the entry of a page again, in a better band; `is_within`: by a link of its own domain.
  function of.promote(terms, domain, record, page, is_within)
    local c, priority = terms.c, terms.kind.priority
    local kind = kind_of(c, terms.kind.spider, priority - priority % TENS + (is_within and PROMOTED_WITHIN or PROMOTED))
    local copy = { with_mark(terms, domain, page[1], page[2]) }
    enqueue({ c = c, kind = kind, site = terms.site }, domain, record, copy, 1, 1)
    changed_of(c)[domain] = record
    count(c, 'admitted', 1)
    count(c, 'queued', 1)
  end

  return of
end

-- Return whether links come from pages of their own domain, or of a site in it.
local function is_within(from, domain)
  return from == domain or from and string.sub(from, -#domain - 1) == '.' .. domain
end

-- Count links of a group, `amount` from links[at] on, for those of their pages that wait.
local function see(terms, domain, record, links, at, amount)
  local THIRD, HIGHEST = 3, 7000
  local c, priority, linked = terms.c, terms.kind.priority, nil
  if not crawl_of(c).is_scored or priority <= LAST_BAND or priority > HIGHEST then
    return
  end
  local waits = known(c .. WAITS, domain, record, links, at, amount)
  for i = 1, amount do
    if waits[i] == 1 then
      local fingerprint, sets = links[at + i - 1], waiting_sets()
      linked = linked or known(c .. LINKED, domain, record, links, at, amount)
      if linked[i] ~= 1 then
        sets.add(c .. LINKED, domain, record, fingerprint)
      end
      if (linked[i] == 1 or terms.counts == THIRD) and sets.remove(c .. WAITS, domain, record, fingerprint) then
        local page = { fingerprint, links[at + amount + i - 1] }
        promotion().promote(terms, domain, record, page, is_within(terms.from, domain))
      end
    end
  end
end

-- Return the entries among those taken from a band whose pages still wait, without their marks, and the number of the
-- others, which end. They take part in no promotion from now on.
local function take_marked(c, name, entries)
  local MARKED, FORM = '^%d+!', '^(%d+)!(%-?%d+) (%S*) (,.*)$'
  local kept, ended = {}, 0
  for i = 1, #entries do
    local entry = entries[i]
    if string.find(entry, MARKED) then
      local number, fingerprint, domain, body = string.match(entry, FORM)
      domain = domain ~= '' and domain or name
      local record = load_domain_records(c, { domain })[domain]
      local was_unpromoted = waiting_sets().remove(c .. WAITS, domain, record, fingerprint)
      local was_linked = waiting_sets().remove(c .. LINKED, domain, record, fingerprint)
      entry = (was_unpromoted or was_linked) and number .. body
    end
    kept[#kept + 1], ended = entry or nil, ended + (entry and 0 or 1)
  end
  if ended > 0 then
    count(c, 'queued', -ended)
    count(c, 'redirected', ended)
    count(c, 'n:promoted', ended)
    touched[c] = true
  end
  return kept, ended
end

-- Return the functions of this file.
function promotion()
  if not made_promotion then
    made_promotion = marked_entries()
    made_promotion.see, made_promotion.take = see, take_marked
  end
  return made_promotion
end
end
