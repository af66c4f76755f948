-- Bands in parts: the middle of a long one is on the shelf.
-- Guarantee: a band is whole, one list, or in parts: its head, chunks, its tail. Only the head is leased
--   from, and only the tail is appended to, so the order is that of one list. A band whose head is empty
--   while it has chunks leaves the index, like any empty band; it is in `restock` then, and `restocked` brings
--   it back. Without chunks, the tail replaces an empty head.
-- Head `b:<S>:<tag>:<domain>` LIST, tail `bt:…` LIST, `bc:…` LIST of chunks, oldest first: "<id> <entries>
--   <place>"; place i: in `chunk:<id>`, o: on a server of its own.
-- `parts:<c>` HASH domain -> " <S>/<priority>=<entries on the shelf>" for each of its bands in parts. While
--   it exists `x:<c>` has `parts`; its `shelved` is the number of `queued` entries on the shelf.
-- `shelve`, `restock` ZSET "<S> <tag> <domain>" by the time when redis-monitor must process it.
-- Needs: clock, ledger, and the first part of `bands`. Cost: one comparison for whole bands.
--   Its functions are created when needed: defining one takes time in every call.
local LARGEST_CHUNK, LEAST_HEAD = 256, 1
local made_notes, made_parts

-- Return functions that read (`get`, nil: it is whole) and set the number of a band's entries on the shelf (`set`).
local function shelf_notes()
  if made_notes then
    return made_notes
  end
  local texts = {}

  -- Return the value of `parts` for a domain, and the band's name in it.
  local function look_up(S, tag, domain)
    local key = K.parts(split_tag(tag))
    local place = key .. ' ' .. domain
    texts[place] = texts[place] or redis.call('HGET', key, domain) or ''
    return texts[place], ' ' .. S .. string.match(tag, '/.*$') .. '=', place
  end

  local function get(S, tag, domain)
    if not crawl_of(split_tag(tag)).parts then
      return nil
    end
    local text, name = look_up(S, tag, domain)
    local _, last = string.find(text, name, 1, true)
    return last and tonumber(string.match(text, '^%d+', last + 1))
  end

  local function set(S, tag, domain, amount)
    local c, text, name, place = split_tag(tag), look_up(S, tag, domain)
    local first, last = string.find(text, name, 1, true)
    if first then
      text = string.sub(text, 1, first - 1) .. string.match(text, '^%d+(.*)$', last + 1)
    end
    text = text .. (amount and name .. int(amount) or '')
    texts[place] = text
    if text ~= '' then
      redis.call('HSET', K.parts(c), domain, text)
    else
      redis.call('HDEL', K.parts(c), domain)
    end
    local crawl, are_any = crawl_of(c), text ~= '' or redis.call('EXISTS', K.parts(c)) == 1
    if are_any and not crawl.parts then
      redis.call('HSET', K.ledger(c), 'parts', '1')
    elseif crawl.parts and not are_any then
      redis.call('HDEL', K.ledger(c), 'parts')
    end
    crawl.parts = are_any or nil
  end

  made_notes = { get = get, set = set }
  return made_notes
end

-- Return the functions for bands in parts, with the length at which a band is put in parts (`shelve_at`, 0: never).
local function band_parts()
  if made_parts then
    return made_parts
  end
  local shelve_at = tonumber(redis.call('HGET', K.meta, 'shelve_at') or 0)
  local parts = { shelve_at = shelve_at, a_chunk = math.min(shelve_at, LARGEST_CHUNK) }
  parts.low_water = math.max(math.floor(parts.a_chunk / 8), LEAST_HEAD)
  parts.of_tail = math.ceil(parts.a_chunk / 2)

  -- Note that a list of a band has grown by `amount`: each time that it passes a multiple of `often`,
  -- redis-monitor checks whether it is too long.
  function parts.note_long(S, tag, domain, length, amount, often)
    if often > 0 and math.floor(length / often) > math.floor((length - amount) / often) then
      redis.call('ZADD', K.shelve, 'NX', int(now), S .. ' ' .. tag .. ' ' .. domain)
    end
  end

  -- Request the next chunk of a band if there is one and its head is nearly empty; return whether there is.
  function parts.ask(S, tag, domain)
    local is_out = (shelf_notes().get(S, tag, domain) or 0) > 0
    if is_out and redis.call('LLEN', K.band(S, tag, domain)) < parts.low_water
      and redis.call('ZADD', K.restock, 'NX', int(now), S .. ' ' .. tag .. ' ' .. domain) == 1 then
      redis.call(PUBLISH, K.wake_shelf, '1')
    end
    return is_out
  end

  -- Replace the empty head of a band by its tail; return true if the head then has entries.
  function parts.refill(S, tag, domain)
    if not shelf_notes().get(S, tag, domain) or parts.ask(S, tag, domain) then
      return false
    end
    shelf_notes().set(S, tag, domain, nil)
    return redis.call('EXISTS', K.tail(S, tag, domain)) == 1
      and redis.call('RENAME', K.tail(S, tag, domain), K.band(S, tag, domain)) and true
  end

  -- Return true if a band has an entry that may be leased now.
  function parts.has_entries(S, tag, domain)
    return redis.call('EXISTS', K.band(S, tag, domain)) == 1 or parts.refill(S, tag, domain)
  end

  made_parts = parts
  return parts
end

-- Append entries, list[first] to list[last], to a band in parts; return false if it is whole.
local function append_to_tail(S, tag, domain, list, first, last)
  local shelved = shelf_notes().get(S, tag, domain)
  if not shelved then
    return false
  end
  local length = redis.call('RPUSH', K.tail(S, tag, domain), unpack(list, first, last))
  band_parts().note_long(S, tag, domain, length, last - first + 1, band_parts().of_tail)
  if length == last - first + 1 and shelved == 0 and band_parts().has_entries(S, tag, domain) then
    local _, priority = standing(tag)
    index_band(S, domain, tag, priority)
  end
  return true
end
