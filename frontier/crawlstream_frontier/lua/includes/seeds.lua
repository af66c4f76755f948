-- Admission of seeds, hundreds at a time: `admit` for many domains at once.
-- Guarantee: same effect as admitting each alone, in order. Only seeds that nothing can refuse (no cap of
--   their crawl or of the operator) and nothing delays may be gathered; `flush_seeds` must run before any
--   other change to their crawls, and before `save_ledger`.
-- Needs: clock, ledger, throttle, bands, dedupe, admit. Cost: per seed one RPUSH; per crawl HMGET and
--   HSET of its domains; per slab SCARD and SADD; two more commands per domain with sets of its own.
local gather_seed, flush_seeds, admit_alone

-- Note a seed with a uuid for its client's reply: `accepted` now, unless it `is_told` already, or, where a NUL
-- precedes the uuid, when the page is over. Field `a:<uuid>` of the ledger counts the replies of this kind that are to
-- come: what is left when the run ends is answered with its ending.
local function note_client(c, uuid, is_told, details)
  if string.byte(uuid) == 0 then
    count(c, 'a:' .. string.sub(uuid, 2), 1)
  elseif not is_told then
    owe('accepted', not details and c, details or { uuid = uuid })
  end
end

do
local gathered, order = {}, {}

-- Keep a seed of crawl c for the next flush; `site` may be nil.
function gather_seed(c, kind, domain, site, fingerprint, entry)
  local of = gathered[c]
  if not of then
    of = { domains = {}, groups = {}, by_domain = {} }
    gathered[c], order[#order + 1] = of, c
  end
  local groups = of.by_domain[domain]
  if not groups then
    groups = {}
    of.by_domain[domain], of.domains[#of.domains + 1] = groups, domain
  end
  local group
  for i = 1, #groups do
    if groups[i].kind == kind and groups[i].site == site then
      group = groups[i]
    end
  end
  if not group then
    group = { c = c, kind = kind, site = site, counts = true, domain = domain, fingerprints = {}, entries = {} }
    groups[#groups + 1], of.groups[#of.groups + 1] = group, group
  end
  local n = #group.entries + 1
  group.fingerprints[n], group.entries[n] = fingerprint, entry
end

-- Return the newest slab of crawl c, its number of taken seats, and the fingerprints to add to slabs.
local function open_slabs(c)
  local x = redis.call('HMGET', K.ledger(c), 'slab', 'seats')
  return { last = x[1] or NO_SLAB, seats = tonumber(x[2] or SLAB_SEATS), sizes = {}, marks = {} }
end

local function size_of_slab(c, slabs, slab)
  slabs.sizes[slab] = slabs.sizes[slab] or redis.call('SCARD', K.slab(c, slab))
  return slabs.sizes[slab]
end

-- Seat a new domain in a slab with room for `size` fingerprints.
local function seat_for(c, slabs, size)
  if slabs.seats >= SLAB_SEATS or size_of_slab(c, slabs, slabs.last) + size > SLAB_MEMBERS then
    slabs.last, slabs.seats = int(slabs.last + 1), 0
  end
  slabs.seats, slabs.changed = slabs.seats + 1, true
  return slabs.last
end

-- Return the unknown ones of the fingerprints, each once.
local function unknown(c, domain, record, fingerprints)
  local hits, seen, new = known(c, domain, record, fingerprints, 1, #fingerprints), {}, {}
  for i = 1, #fingerprints do
    if hits[i] ~= 1 and not seen[fingerprints[i]] then
      seen[fingerprints[i]], new[#new + 1] = true, fingerprints[i]
    end
  end
  return new
end

-- Mark the fingerprints of a group, known or not.
local function mark_group(c, slabs, record, group)
  local domain, fingerprints = group.domain, group.fingerprints
  if record.slab == NO_SLAB and record.own == 0 and #fingerprints <= SLAB_MEMBERS then
    record.slab = seat_for(c, slabs, #fingerprints)
  end
  if record.own > 0 or record.slab == NO_SLAB
    or size_of_slab(c, slabs, record.slab) + #fingerprints > SLAB_MEMBERS then
    local new = unknown(c, domain, record, fingerprints)
    if #new > 0 then
      mark_own(c, domain, record, new, 1, #new)
    end
    return
  end
  local marks = slabs.marks[record.slab] or {}
  slabs.marks[record.slab] = marks
  slabs.sizes[record.slab] = slabs.sizes[record.slab] + #fingerprints
  for i = 1, #fingerprints do
    marks[#marks + 1] = fingerprints[i]
  end
end

local function save_slabs(c, slabs)
  if slabs.changed then
    redis.call('HSET', K.ledger(c), 'slab', slabs.last, 'seats', int(slabs.seats))
  end
  for slab, marks in pairs(slabs.marks) do
    redis.call('SADD', K.slab(c, slab), unpack(marks))
  end
end

local function flush_crawl(c, of)
  local records, slabs = load_domain_records(c, of.domains), open_slabs(c)
  for _, group in ipairs(of.groups) do
    local record, size = records[group.domain], #group.entries
    mark_group(c, slabs, record, group)
    record.counted = record.counted + size
    count_entered(group, size)
    enqueue(group, group.domain, record, group.entries, 1, size)
    changed_of(c)[group.domain] = record
  end
  save_slabs(c, slabs)
  save_domain_records()
end

-- Admit all kept seeds.
function flush_seeds()
  for _, c in ipairs(order) do
    flush_crawl(c, gathered[c])
  end
  gathered, order = {}, {}
end

-- Admit a seed that a cap may refuse, or that is delayed: `links` as in `admit`, of one link. Return whether it was
-- admitted, else the reason.
function admit_alone(c, links, caps, not_before)
  flush_seeds()
  local due = not_before > wall and now + not_before - wall or nil
  load_domain_records(c, { links[6] })
  local entered, reason = admit(c, links, caps, { due = due })
  save_domain_records()
  return entered > 0, reason
end

end
