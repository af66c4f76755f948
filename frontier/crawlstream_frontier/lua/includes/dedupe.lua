-- Exact dedupe of a crawl's fingerprints, in about 9 bytes each.
-- Guarantee: a fingerprint that was marked is known until the crawl's dedupe is dropped.
-- Up to 32 small domains of a crawl share one slab, a set of integers that Redis keeps as a
--   sorted array (intset, at most 512 members). If a slab is full, a domain continues in sets of
--   its own, split by linear hashing so that each stays an intset; their number follows from the
--   number of their fingerprints, so that no directory is needed.
-- Keys: `s:<c>:<slab>` SET; `e:<c>:<domain>:<i>` SET. Record of a domain in `k:<c>`:
--   "<counted> <slab> <own> <bands>": pages counted for the cap, seat (0: none), fingerprints in its
--   own sets, and its bands as `,<priority>` or `,<priority>@<spider>` each; before them, what `host_budgets` notes.
local SLAB_SEATS, SLAB_MEMBERS = 32, 508
local NO_SLAB = '0'

--- include: own_sets

local function own_key(c, domain, set)
  return K.own_set(c, domain, set == 0 and '0' or int(set))
end

-- Grow the own sets of a domain from `from` to `to` sets.
local function split_sets(c, domain, from, to)
  for set = from, to - 1 do
    local power = 1
    while power * 2 <= set do
      power = power * 2
    end
    local source = own_key(c, domain, set - power)
    local moved = {}
    for _, fingerprint in ipairs(redis.call('SMEMBERS', source)) do
      if set_of(fingerprint, set + 1) == set then
        moved[#moved + 1] = fingerprint
      end
    end
    if #moved > 0 then
      redis.call('SREM', source, unpack(moved))
      redis.call('SADD', own_key(c, domain, set), unpack(moved))
    end
  end
end

-- Group fingerprints of a list by their own set, with their positions in the list.
local function spread(list, first, amount, sets)
  local parts = {}
  for i = 1, amount do
    local fingerprint = list[first + i - 1]
    local set = set_of(fingerprint, sets)
    local part = parts[set] or { fingerprints = {}, places = {} }
    parts[set] = part
    part.fingerprints[#part.fingerprints + 1], part.places[#part.places + 1] = fingerprint, i
  end
  return parts
end

-- Return 1 for each known one of `amount` fingerprints of a domain, from list[first] on.
local function known(c, domain, record, list, first, amount)
  local last, hits = first + amount - 1, {}
  if record.slab ~= NO_SLAB then
    hits = redis.call('SMISMEMBER', K.slab(c, record.slab), unpack(list, first, last))
  end
  local sets = sets_for(record.own)
  if record.own > 0 and sets == 1 then
    local found = redis.call('SMISMEMBER', own_key(c, domain, 0), unpack(list, first, last))
    for i = 1, amount do
      hits[i] = found[i] == 1 and 1 or hits[i]
    end
  elseif record.own > 0 then
    for set, part in pairs(spread(list, first, amount, sets)) do
      local found = redis.call('SMISMEMBER', own_key(c, domain, set), unpack(part.fingerprints))
      for i = 1, #found do
        hits[part.places[i]] = found[i] == 1 and 1 or hits[part.places[i]]
      end
    end
  end
  return hits
end

-- Return true if one fingerprint of a domain is known.
local function is_marked(c, domain, record, fingerprint)
  if record.slab ~= NO_SLAB
    and redis.call('SISMEMBER', K.slab(c, record.slab), fingerprint) == 1 then
    return true
  end
  local set = record.own > 0 and set_of(fingerprint, sets_for(record.own))
  return set and redis.call('SISMEMBER', own_key(c, domain, set), fingerprint) == 1
end

-- Give a new domain a seat in the crawl's newest slab, or in a new slab.
local function seat(c)
  local x = redis.call('HMGET', K.ledger(c), 'slab', 'seats')
  local slab, seats = tonumber(x[1] or 0), tonumber(x[2] or SLAB_SEATS)
  if seats >= SLAB_SEATS then
    slab, seats = slab + 1, 0
  end
  slab = int(slab)
  redis.call('HSET', K.ledger(c), 'slab', slab, 'seats', int(seats + 1))
  return slab
end

-- Mark the new fingerprints of a list, as in `known`, in the domain's own sets.
local function mark_own(c, domain, record, list, first, amount)
  local before, after = sets_for(record.own), sets_for(record.own + amount)
  if after > before then
    split_sets(c, domain, before, after)
  end
  record.own = record.own + amount
  if after == 1 then
    redis.call('SADD', own_key(c, domain, 0), unpack(list, first, first + amount - 1))
    return
  end
  for set, part in pairs(spread(list, first, amount, after)) do
    redis.call('SADD', own_key(c, domain, set), unpack(part.fingerprints))
  end
end

local slab_sizes = {}

-- Mark the new fingerprints of a list, as in `known`. A domain that finds no room in the slab
-- where it would be seated gets no seat: no lookup goes there.
local function mark(c, domain, record, list, first, amount)
  if record.own == 0 then
    local slab = record.slab ~= NO_SLAB and record.slab or seat(c)
    local key = K.slab(c, slab)
    local size = (slab_sizes[key] or redis.call('SCARD', key)) + amount
    if size <= SLAB_MEMBERS then
      record.slab, slab_sizes[key] = slab, size
      redis.call('SADD', key, unpack(list, first, first + amount - 1))
      return
    end
  end
  mark_own(c, domain, record, list, first, amount)
end

-- Mark one fingerprint, regardless of caps; return true if it is new. If its set has room, one
-- command does both; most known fingerprints are in the domain's own sets, if it has any.
local function mark_one(c, domain, record, fingerprint)
  local own = record.own
  local sets = own < OWN_SPLIT_FROM and 1 or sets_for(own)
  if own > 0 and (own < OWN_SPLIT_FROM or sets == sets_for(own + 1)) then
    local key = own_key(c, domain, set_of(fingerprint, sets))
    local added = redis.call('SADD', key, fingerprint)
    if added == 1 and record.slab ~= NO_SLAB
      and redis.call('SISMEMBER', K.slab(c, record.slab), fingerprint) == 1 then
      redis.call('SREM', key, fingerprint)
      return false
    end
    record.own = own + added
    return added == 1
  elseif own == 0 and record.slab ~= NO_SLAB then
    local key = K.slab(c, record.slab)
    local size = slab_sizes[key] or redis.call('SCARD', key)
    if size < SLAB_MEMBERS then
      local added = redis.call('SADD', key, fingerprint)
      slab_sizes[key] = size + added
      return added == 1
    end
  end
  local is_new = not is_marked(c, domain, record, fingerprint)
  if is_new then
    mark(c, domain, record, { fingerprint }, 1, 1)
  end
  return is_new
end
