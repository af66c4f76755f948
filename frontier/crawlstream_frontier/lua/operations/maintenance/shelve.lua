#!lua flags=allow-oom
-- shelve: return the work on bands in parts, for a caller that reaches the shelf. One bounded step.
-- Guarantee: changes no entry: only `shelved` and `restocked` do, and only if the answer of this call
--   is still valid. The name of a chunk is used once, even if Redis goes back to an older
--   copy of its data. On a server of its own no chunk is deleted that a band has, or that `shelved` may still
--   give to one, or that a band had an hour ago: Redis may go back that far.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {length from which on a band is put in parts (0: none), address of the shelf|'' (Redis),
--   a new name for this frontier, most bands of each kind, {deleted id …}, life whose orphans are deleted|-1}
-- Returns: packed {'OK', name of the frontier, {restocking …}, {shelving …}, {id …} to delete, orphans of
--   {life, last number} to delete, next_ms|-1}, or {'OTHER', address, chunks there} if chunks are
--   on another shelf than this
--   restocking {spider, tag, domain, id, entries, is it in Redis, chunk|'' (on the shelf, or lost)}
--   shelving   {spider, tag, domain, is it the tail, digest, id, {entry …}}
-- `shelf` HASH: `at`, its address; `name` of this frontier there; `chunks` that bands have there; `life`
--   and `last`, of the last name given. `discarded` ZSET id by the time when it may be deleted; `doomed`
--   SET ids to delete; `orphans` LIST "<life> <last>" of epochs whose later names are unknown.
-- `abandoned_chunks` SET "<S> <tag> <domain>" of swept bands that have chunks.
-- Cost: O(returned entries), about 100 KB.
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: shelf

local AGAIN_MS, CHUNKS_A_STEP, MOST_BYTES = 2000, 100, 256 * 1024
local shelve_from, address, new_name, most, deleted, orphans_gone = unpack(cmsgpack.unpack(ARGV[1]))

local known = redis.call('HMGET', K.shelf, 'at', 'chunks', 'life')
if tonumber(known[2] or 0) > 0 and known[1] ~= address then
  save_clock()
  return cmsgpack.pack({ 'OTHER', known[1], tonumber(known[2]) })
end
redis.call('HSETNX', K.shelf, 'name', new_name)
redis.call('HSET', K.shelf, 'at', address)
if tonumber(redis.call('HGET', K.meta, 'shelve_at') or 0) ~= shelve_from then
  redis.call('HSET', K.meta, 'shelve_at', int(shelve_from))
end
if known[3] ~= int(life) then
  local last = tonumber(redis.call('HGET', K.shelf, 'last') or 0)
  if address ~= '' and known[3] then
    redis.call('RPUSH', K.orphans, known[3] .. ' ' .. int(last))
  end
  redis.call('HSET', K.shelf, 'life', int(life), 'last', 0)
end

-- Forget the ids deleted on the shelf, and return those to delete now.
local function to_delete()
  if #deleted > 0 then
    redis.call('SREM', K.doomed, unpack(deleted))
  end
  local due = redis.call('ZRANGE', K.discarded, '-inf', int(now), 'BYSCORE', 'LIMIT', 0, CHUNKS_A_STEP)
  if #due > 0 then
    redis.call('SADD', K.doomed, unpack(due))
    redis.call('ZREM', K.discarded, unpack(due))
  end
  return redis.call('SRANDMEMBER', K.doomed, CHUNKS_A_STEP)
end

local function discard_abandoned()
  local band = redis.call('SRANDMEMBER', K.abandoned_chunks)
  if band then
    local S, tag, domain = string.match(band, '^(%S+) (%S+) (%S+)$')
    local chunks = redis.call('LPOP', K.chunks(S, tag, domain), CHUNKS_A_STEP) or {}
    for i = 1, #chunks do
      discard(chunks[i])
    end
    if #chunks < CHUNKS_A_STEP then
      redis.call('SREM', K.abandoned_chunks, band)
    end
  end
end

-- Return the work on due bands of an index; `hand_out` returns that of one band, nil if there is none.
local function work_of(index, hand_out)
  local work, bytes = {}, 0
  for _, band in ipairs(redis.call('ZRANGE', index, '-inf', int(now), 'BYSCORE', 'LIMIT', 0, most)) do
    local S, tag, domain = string.match(band, '^(%S+) (%S+) (%S+)$')
    if bytes < MOST_BYTES then
      local one, weight = nil, nil
      if crawl_of(split_tag(tag)).state == 'running' then
        one, weight = hand_out(S, tag, domain)
      end
      if one then
        work[#work + 1], bytes = one, bytes + weight
        redis.call('ZADD', index, int(now + AGAIN_MS), band)
      else
        redis.call('ZREM', index, band)
      end
    end
  end
  return work
end

local function restocking(S, tag, domain)
  local length = redis.call('LLEN', K.band(S, tag, domain))
  local id, entries, place = first_chunk(S, tag, domain)
  if not id or length > 0 and length >= band_parts().low_water then
    return nil
  end
  local chunk = place == INSIDE and redis.call('GET', K.chunk(id)) or ''
  return { S, tag, domain, id, entries, place == INSIDE, chunk }, #chunk
end

-- Return entries from one end of a list, as many as a call may carry; `from_end`: from its tail end.
local function cut(entries, from_end)
  local cut_to, bytes = {}, 0
  for i = 1, #entries do
    local entry = entries[from_end and #entries + 1 - i or i]
    bytes = bytes + #entry
    if i > 1 and bytes > MOST_BYTES then
      break
    end
    table.insert(cut_to, from_end and 1 or i, entry)
  end
  return cut_to, bytes
end

local function shelving(S, tag, domain)
  if shelve_from == 0 then
    return nil
  end
  local a_chunk, keep = band_parts().a_chunk, band_parts().low_water
  local half, is_whole = band_parts().of_tail, not shelf_notes().get(S, tag, domain)
  local is_tail = redis.call('LLEN', K.tail(S, tag, domain)) >= half
  local entries, bytes
  if is_tail then
    entries, bytes = cut(redis.call('LRANGE', K.tail(S, tag, domain), 0, half - 1), false)
  else
    local head = redis.call('LLEN', K.band(S, tag, domain))
    if head < (is_whole and shelve_from or a_chunk + keep) then
      return nil
    end
    entries, bytes = cut(redis.call('LRANGE', K.band(S, tag, domain), int(-math.min(head - keep, a_chunk)), -1), true)
  end
  if is_whole then
    shelf_notes().set(S, tag, domain, 0)
  end
  return { S, tag, domain, is_tail, digest_of(entries), new_id(address), entries }, bytes
end

local function next_due()
  local first = FOREVER
  for _, index in ipairs({ K.restock, K.shelve, K.discarded }) do
    first = math.min(first, tonumber(redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')[2] or FOREVER))
  end
  if redis.call('SCARD', K.abandoned_chunks) > 0 then
    first = now
  end
  return first < FOREVER and math.max(first - now, 0) or -1
end

if orphans_gone >= 0 and string.match(redis.call('LINDEX', K.orphans, 0) or '', '^%d+') == int(orphans_gone) then
  redis.call('LPOP', K.orphans)
end
local doomed = to_delete()
discard_abandoned()
local restockings, shelvings = work_of(K.restock, restocking), work_of(K.shelve, shelving)
local orphan_life, orphan_last = string.match(redis.call('LINDEX', K.orphans, 0) or '', '^(%d+) (%d+)$')
finish()
return cmsgpack.pack({ 'OK', redis.call('HGET', K.shelf, 'name'), restockings, shelvings, doomed,
  { tonumber(orphan_life), tonumber(orphan_last) }, next_due() })
