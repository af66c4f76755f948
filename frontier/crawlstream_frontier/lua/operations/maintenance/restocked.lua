#!lua flags=allow-oom
-- restocked: return the oldest chunk of a band to its head, or fail its entries if the shelf has lost it.
-- Guarantee: each chunk comes back once, in its turn. Safe to repeat. The failure of a lost one is published with
--   the number of its entries.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {spider, tag, domain, id, {entry …} (none: it is lost)}
-- Returns: 1 if this has taken effect, else 0.
-- Cost: O(entries).
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands
--- include: shelf

local S, tag, domain, id, entries = unpack(cmsgpack.unpack(ARGV[1]))
local c = split_tag(tag)
local band = S .. ' ' .. tag .. ' ' .. domain

local function lose(amount)
  count(c, 'queued', -amount)
  count(c, 'failed', amount)
  count(c, 'f:shelf_lost', amount)
  touched[c] = true
  owe('shelf_lost', c, { reason = 'shelf_lost', spill = id, links = amount, domain = domain })
end

-- Index the band: for `lease` if its head has entries, for restocking if its next entries are on the shelf.
local function put_in_order()
  redis.call('ZREM', K.restock, band)
  band_parts().ask(S, tag, domain)
  if band_parts().has_entries(S, tag, domain) then
    local _, priority = standing(tag)
    index_band(S, domain, tag, priority)
  end
  if redis.call('HEXISTS', K.abandon, c) == 1 then
    wake_tend_by(now)
  end
end

local function restock()
  local first, amount = first_chunk(S, tag, domain)
  if first ~= id or crawl_of(c).state ~= 'running' or #entries > 0 and #entries ~= amount then
    return 0
  end
  discard(redis.call('LPOP', K.chunks(S, tag, domain)))
  shelf_notes().set(S, tag, domain, shelf_notes().get(S, tag, domain) - amount)
  count(c, 'shelved', -amount)
  if #entries > 0 then
    redis.call('RPUSH', K.band(S, tag, domain), unpack(entries))
  else
    lose(amount)
  end
  put_in_order()
  return 1
end

local is_done = restock()
finish()
return is_done
