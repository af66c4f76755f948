-- Chunks of bands in parts, and their places.
-- Guarantee: a chunk on a server of its own is in one of: a band's list, `discarded`, `doomed`. It stays
--   in `discarded` for an hour.
-- Needs: clock, ledger, bands.
local INSIDE, OUTSIDE = 'i', 'o'
local REMEMBER_MS, TO_WRITE_MS = 3600000, 600000

local function digest_of(entries)
  return redis.sha1hex(cmsgpack.pack(entries))
end

-- Return a name for a new chunk; on a server of its own the chunk is deleted if no band ever has it.
local function new_id(address)
  local id = int(life) .. '.' .. int(redis.call('HINCRBY', K.shelf, 'last', 1))
  if address ~= '' then
    redis.call('ZADD', K.discarded, int(now + TO_WRITE_MS + REMEMBER_MS), id)
  end
  return id
end

local function split_chunk(text)
  local id, entries, place = string.match(text or '', '^(%S+) (%d+) (%a)$')
  return id, tonumber(entries), place
end

-- Return the oldest chunk of a band: its id, number of entries and place; nil if the band has none.
local function first_chunk(S, tag, domain)
  return split_chunk(redis.call('LINDEX', K.chunks(S, tag, domain), 0))
end

-- Discard a chunk that no band has any more.
local function discard(text)
  local id, _, place = split_chunk(text)
  if place == INSIDE then
    redis.call('UNLINK', K.chunk(id))
  else
    redis.call('ZADD', K.discarded, int(now + REMEMBER_MS), id)
    redis.call('HINCRBY', K.shelf, 'chunks', -1)
  end
end
