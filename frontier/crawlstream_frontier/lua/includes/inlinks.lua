-- Promotion by in-links: in a crawl with a score, a waiting page to which a third link is found moves once, to a better
--   band, as a copy of its entry. It goes ahead of pages of its own depth and of the one before. A link of its own
--   domain moves it only within the domain, which keeps its rank among others (see `claim_of`).
-- Guarantee: a page is granted once, however many entries of it wait: the first one that is leased takes it from the
--   hash, and later ones end as redirected, for the reason `promoted`. An entry that was leased is an ordinary one from
--   then on. Copies are admitted, but do not count for caps.
-- Guarantee: a page is granted with the least depth of all links to it that were found while it waited. A link of a
--   smaller depth puts a copy as well: if the page came later than its depth, pages below it could be out of reach.
-- Only links that workers have counted are listed: a page that waits outside of a band (delayed, in limbo, spilled), a
--   seed, the target of a redirect and a page of a last band are never promoted. Links for another spider than that of
--   the page do not count.
-- Entry in a band: profile number, '!', fingerprint, ' ', domain if it waits under another name, ' ,' and the body.
-- Key `i:<c>:<domain>` HASH fingerprint of a page that waits -> 8 * its depth, + 4 if it has several entries, + its
--   links; 3: it was promoted. If it waits for another spider than that of the crawl, ' ' and the spider follow.
-- `recovered` in the ledger has 16 if there are any.
-- Links have a `weight`: 1 if they count, 0 if not (see `host_budgets`).
-- Needs: clock, ledger, bands, admit. Cost in crawls with a score: per group HSET for new links, HMGET for known ones,
--   HSET if one of them waits; per leased page HGET and HDEL; nothing for others.
local promotion

-- Its functions are created when needed: defining one takes time in every call.
do
local A_LEVEL, SEVERAL, PROMOTED_BY = 8, 4, 3  -- Of the value of a page that waits.
local made_promotion

-- Return what follows the value of a page that waits for spider S.
local function spider_in(c, S)
  return S == string.match(crawl_of(c).name, '^[^:]*') and '' or ' ' .. S
end

-- Return functions for the depth of an entry, which `wire.stored` has as a varint from the third byte of its body on.
local function depths()
  local MORE, AT = 128, 3
  local of = {}

  -- Return the depth in a body, and the position behind it.
  function of.read(body)
    local depth, unit, at = 0, 1, AT
    while true do
      local byte = string.byte(body, at) or 0
      depth, at = depth + byte % MORE * unit, at + 1
      if byte < MORE then
        return depth, at
      end
      unit = unit * MORE
    end
  end

  -- Return a body with another depth.
  function of.write(body, depth)
    local former, behind = of.read(body)
    if former == depth then
      return body
    end
    local head = string.sub(body, 1, AT - 1)
    while depth >= MORE do
      head, depth = head .. string.char(MORE + depth % MORE), math.floor(depth / MORE)
    end
    return head .. string.char(depth) .. string.sub(body, behind)
  end

  return of
end

-- Return functions for the mark of an entry. `terms` as in `admit`.
local function marks()
  local MARK = '!%s %s ,'
  local of = {}

  -- Return header and body of an entry.
  function of.split(terms, entry)
    if terms.header then
      return terms.header, entry
    end
    local header = string.match(entry, '^%d+,')
    return header, string.sub(entry, #header + 1)
  end

  function of.add(terms, domain, fingerprint, header, body)
    return string.sub(header, 1, -2) .. string.format(MARK, fingerprint, terms.site and domain or '') .. body
  end

  return of
end

-- Return a function that queues pages that were just marked as known, and lists them: {list, marks, entries, n} as in
-- `admit_group`.
local function entering(marking, depth)
  local SCORED = 16
  return function(terms, domain, record, group)
    local c, list, first, entries, n = terms.c, unpack(group)
    if terms.kind.priority <= LAST_BAND then
      return enqueue(terms, domain, record, list, entries, n)
    end
    local crawl, spider, marked, values = crawl_of(c), spider_in(c, terms.kind.spider), {}, {}
    for i = 1, n do
      local fingerprint, header, body = list[first + i - 1], marking.split(terms, list[entries + i - 1])
      values[2 * i - 1], values[2 * i] = fingerprint, int(A_LEVEL * depth.read(body) + terms.linked.weight) .. spider
      marked[i] = marking.add(terms, domain, fingerprint, header, body)
    end
    if not crawl.is_scored then
      redis.call('HINCRBY', K.ledger(c), 'recovered', SCORED)
      crawl.is_scored, has_scored = true, true
    end
    redis.call('HSET', K.linked(c, domain), unpack(values))
    enqueue({ c = c, kind = terms.kind, site = terms.site }, domain, record, marked, 1, n)
  end
end

-- Return a function that counts a link {fingerprint, entry} to a page that waits, and returns the value of the page.
local function counting(marking, depth)
  local HIGHEST, LEVEL, THIRD = 7000, 10, 3

  -- Put the entry of a link again, as it is at a `depth`, above or at its own; `raised` by a promotion.
  local function copy(terms, domain, record, link, place)
    local c, header, body = terms.c, marking.split(terms, link[2])
    local priority = terms.kind.priority + LEVEL * (depth.read(body) - place.depth)
    local kind = kind_of(c, terms.kind.spider, math.min(priority - priority % LEVEL, HIGHEST) + place.raised)
    local entry = marking.add(terms, domain, link[1], header, depth.write(body, place.depth))
    enqueue({ c = c, kind = kind, site = terms.site }, domain, record, { entry }, 1, 1)
    changed_of(c)[domain] = record
    count(c, 'admitted', 1)
    count(c, 'queued', 1)
  end

  return function(terms, domain, record, link, value)
    local links, least = value % SEVERAL, math.floor(value / A_LEVEL)
    local _, body = marking.split(terms, link[2])
    local found, was_promoted = depth.read(body), links == PROMOTED_BY
    local is_third = (terms.linked.number or terms.counts) == THIRD
    local rises = not was_promoted and terms.linked.weight > 0 and (is_third or links == PROMOTED_BY - 1)
    links = (rises or was_promoted) and PROMOTED_BY or links + terms.linked.weight
    if not rises and found >= least then
      return value - value % SEVERAL + links
    end
    least = math.min(least, found)
    copy(terms, domain, record, link, { depth = least, raised = links == PROMOTED_BY and terms.raised or 0 })
    return A_LEVEL * least + SEVERAL + links
  end
end

-- Return whether links come from pages of their own domain, or of a site in it.
local function is_within(from, domain)
  return from == domain or from and string.sub(from, -#domain - 1) == '.' .. domain
end

-- Count links of a group, `amount` from links[at] on, for those of their pages that wait. `has_known`: some are known.
local function see(terms, domain, links, at, amount, has_known)
  local HIGHEST = 7000
  local c, priority, changed, record = terms.c, terms.kind.priority, {}, records_of[terms.c][domain]
  if not (has_known and crawl_of(c).is_scored) or priority <= LAST_BAND or priority > HIGHEST then
    return
  end
  terms.raised = is_within(terms.from, domain) and PROMOTED_WITHIN or PROMOTED
  local key, spider = K.linked(c, domain), spider_in(c, terms.kind.spider)
  local values = redis.call('HMGET', key, unpack(links, at, at + amount - 1))
  for i = 1, amount do
    local fingerprint = links[at + i - 1]
    local value, of = string.match(values[i] or '', '^(%d+)(.*)$')
    if of == spider then
      value = changed[fingerprint] or tonumber(value)
      local counted = promotion().count(terms, domain, record, { fingerprint, links[at + amount + i - 1] }, value)
      changed[fingerprint] = counted ~= value and counted or changed[fingerprint]
    end
  end
  for fingerprint, value in pairs(changed) do
    redis.call('HSET', key, fingerprint, int(value) .. spider)
  end
end

-- Return the entries among those taken from a band whose pages still wait, without their marks, and the number of the
-- others, which end. They take part in no promotion from now on.
local function take_marked(c, name, entries)
  local MARKED, FORM = '^%d+!', '^(%d+)!(%-?%d+) (%S*) ,(.*)$'
  local kept, ended = {}, 0
  for i = 1, #entries do
    local entry = entries[i]
    if string.find(entry, MARKED) then
      local number, fingerprint, domain, body = string.match(entry, FORM)
      domain = domain ~= '' and domain or name
      local key = K.linked(c, domain)
      local value = redis.call('HGET', key, fingerprint)
      entry = value and redis.call('HDEL', key, fingerprint) and promotion().unmarked(number, value, body)
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
    local marking, depth = marks(), depths()
    made_promotion = { see = see, take = take_marked, weight = 1 }
    made_promotion.enter, made_promotion.count = entering(marking, depth), counting(marking, depth)
    -- Return an entry without its mark, with the depth of the value of its page.
    function made_promotion.unmarked(number, value, body)
      return number .. ',' .. depth.write(body, math.floor(string.match(value, '^%d+') / A_LEVEL))
    end
  end
  return made_promotion
end
end
