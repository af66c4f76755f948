#!lua flags=allow-oom
-- shelved: remove entries from their list that `shelve` has returned and that are on the shelf now.
-- Guarantee: removes exactly the entries that were written, or none: the list must still end with them, and the
--   chunk must not be discarded. Safe to repeat. A chunk passed along is stored by this script.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {spider, tag, domain, is it the tail, digest, id, number of entries, chunk|'' (it is on the shelf),
--   address of the shelf|''}
-- Returns: 1 if the chunk now belongs to the band, else 0.
-- Cost: O(entries).
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: shelf

local S, tag, domain, is_tail, digest, id, amount, chunk, address = unpack(cmsgpack.unpack(ARGV[1]))
local c, place = split_tag(tag), chunk == '' and OUTSIDE or INSIDE

-- Return true if the list still has the entries in the same place.
local function is_as_handed_out(key)
  local first = is_tail and 0 or -amount
  local entries = redis.call('LRANGE', key, int(first), int(first + amount - 1))
  return #entries == amount and digest_of(entries) == digest
end

local function shelve()
  local shelved = shelf_notes().get(S, tag, domain)
  local key = is_tail and K.tail(S, tag, domain) or K.band(S, tag, domain)
  if crawl_of(c).state ~= 'running' or not shelved or not is_as_handed_out(key)
    or place == OUTSIDE and (redis.call('HGET', K.shelf, 'at') ~= address
      or redis.call('ZREM', K.discarded, id) == 0) then
    return 0
  end
  redis.call('LTRIM', key, int(is_tail and amount or 0), int(is_tail and -1 or -amount - 1))
  redis.call(is_tail and 'RPUSH' or 'LPUSH', K.chunks(S, tag, domain), id .. ' ' .. int(amount) .. ' ' .. place)
  if place == OUTSIDE then
    redis.call('HINCRBY', K.shelf, 'chunks', 1)
  else
    redis.call('SET', K.chunk(id), chunk)
  end
  shelf_notes().set(S, tag, domain, shelved + amount)
  count(c, 'shelved', amount)
  redis.call('ZADD', K.shelve, int(now), S .. ' ' .. tag .. ' ' .. domain)
  band_parts().ask(S, tag, domain)
  return 1
end

local is_done = shelve()
finish()
return is_done
