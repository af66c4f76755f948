-- Chunks of bands in parts, and where they are.
-- Guarantee: a chunk on a server of its own is in one of: a band's list, `discarded`, `doomed`. What is
--   discarded stays there for an hour.
-- Needs: clock, ledger, bands.
local INSIDE, OUTSIDE = 'i', 'o'
local REMEMBER_MS, TO_WRITE_MS = 3600000, 600000

local function digest_of(entries)
  return redis.sha1hex(cmsgpack.pack(entries))
end

-- A name for a chunk that is to be written; on a server of its own it is deleted if no band ever has it.
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

-- The oldest chunk of a band: its id, how many entries it has, where it is; nil if it has none.
local function first_chunk(S, tag, domain)
  return split_chunk(redis.call('LINDEX', K.chunks(S, tag, domain), 0))
end

-- No band has this chunk any more.
local function discard(text)
  local id, _, place = split_chunk(text)
  if place == INSIDE then
    redis.call('UNLINK', K.chunk(id))
  else
    redis.call('ZADD', K.discarded, int(now + REMEMBER_MS), id)
    redis.call('HINCRBY', K.shelf, 'chunks', -1)
  end
end
