#!lua flags=no-writes
-- waiting: return entries of crawls that wait at the sites of one domain, from a cursor on.
-- Guarantee: no effect. An entry that waits from the first call to the last is in one of the answers, or in several.
--   Places in a list are counted from its end, so what is appended, leased or put back meanwhile moves no other entry
--   past the cursor. Lists are read in the order in which entries move: delayed ones, then of each band its tail, its
--   chunks, its head. Entries may also move from the end of a head to a chunk; then the first chunk of the band has
--   changed, and the band is read again.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {names of crawls, sites, cursor}
--   cursor {number of a crawl, place in it, list, entries or chunks behind, first chunk}; {1, '', '', 0, ''} begins
-- Returns: packed {cursor, {crawl, site, {entry …}, {id, entries, chunk|'' …}} …}
--   cursor {} at the end; crawl <c>; chunk '': it is on another server
-- Cost: about 60 entries, 20 commands and 0.3 million instructions, however long the lists are.
--- include: present
local MOST, A_CRAWL, A_LIST, A_CHUNK = 52, 14, 10, 12  -- In costs of an entry.
local names, sites, cursor = unpack(cmsgpack.unpack(ARGV[1]))
local first, from, list, behind, front = unpack(cursor)
local left, found = MOST, {}

-- Return the places of a crawl at the sites, in their order: its delayed entries for a spider, bands.
local function places_of(c, name)
  local own_spider = string.match(name, '^[^:]*')
  local places, is_known = {}, {}
  local function add(text, place)
    places[#places + 1], place.text = place, text
  end
  local records = redis.call('HMGET', K.domains(c), unpack(sites))
  for i, site in ipairs(sites) do
    for priority, other in string.gmatch(records[i] and string.match(records[i], ',.*$') or '', ',(-?%d+)@?([^,]*)') do
      local S = other ~= '' and other or own_spider
      add('q' .. site .. ' ' .. S .. '/' .. priority, { S = S, tag = c .. '/' .. priority, site = site })
      if not is_known[S] then
        is_known[S] = true
        add('d' .. S, { S = S })
      end
    end
  end
  table.sort(places, function(a, b)
    return a.text < b.text
  end)
  return places
end

-- Note entries that are read, and return them.
local function read(entries)
  left, behind = left - #entries, behind + #entries
  return entries
end

local function note(c, site, entries, chunks)
  if #entries > 0 or #chunks > 0 then
    found[#found + 1] = { c, site, entries, chunks }
  end
end

-- Add the delayed entries of a crawl for a spider, those due last first.
local function add_delayed(c, S)
  local by_site = {}
  local delayed = redis.call('ZRANGE', K.delayed(S, c), behind, behind + left - 1, 'REV')
  for _, member in ipairs(read(delayed)) do
    local site, entry = string.match(member, '^%d+ %a %S+ (%S+) (.*)$')
    by_site[site] = by_site[site] or {}
    table.insert(by_site[site], entry)
  end
  for _, site in ipairs(sites) do
    note(c, site, by_site[site] or {}, {})
  end
end

-- Return the chunks of a band before the cursor, the latest last.
local function some_chunks(key)
  local chunks, most = {}, math.ceil(left / A_CHUNK)
  local texts = redis.call('LRANGE', key, -behind - most, -behind - 1)
  for _, text in ipairs(texts) do
    local id, entries, where = string.match(text, '^(%S+) (%d+) (%a)$')
    chunks[#chunks + 1], chunks[#chunks + 2] = id, tonumber(entries)
    chunks[#chunks + 1] = where == 'i' and redis.call('GET', K.chunk(id)) or ''
  end
  left, behind = left - A_CHUNK * #texts, behind + #texts
  return chunks
end

local TAIL, CHUNKS, HEAD = 't', 'c', 'h'

-- Return the lists of a band that are still to be read, from the one on that the cursor is in.
local function lists_of(chunks, has_parts)
  local now_front = has_parts and redis.call('LINDEX', chunks, 0) or ''
  local lists = has_parts and { TAIL, CHUNKS, HEAD } or { HEAD }
  if list == HEAD and now_front == front then
    lists = { HEAD }
  elseif list == CHUNKS and has_parts then
    lists = { CHUNKS, HEAD }
  elseif list == HEAD then
    list = ''
  end
  front = now_front
  return lists
end

-- Add entries of a band from the cursor on.
local function add_band(c, place, has_parts)
  local chunks = K.chunks(place.S, place.tag, place.site)
  for _, next_list in ipairs(lists_of(chunks, has_parts)) do
    if left <= 0 then
      return
    end
    behind = next_list == list and behind or 0
    list = next_list
    if list == CHUNKS then
      note(c, place.site, {}, some_chunks(chunks))
    else
      local key = list == TAIL and K.tail(place.S, place.tag, place.site) or K.band(place.S, place.tag, place.site)
      note(c, place.site, read(redis.call('LRANGE', key, -behind - left, -behind - 1)), {})
    end
  end
end

local next_cursor = {}

-- Add the entries of a crawl from the cursor on; return true if there was room for all.
local function add_crawl(number, name, text)
  local c, live = string.match(text or '', '^(%d+) %d+ (%d)$')
  local places = live == '1' and places_of(c, name) or {}
  local has_parts = #places > 0 and redis.call('HEXISTS', K.ledger(c), 'parts') == 1
  for _, place in ipairs(places) do
    if place.text >= from then
      if place.text ~= from then
        list, behind = '', 0
      end
      if left > 0 and place.tag then
        add_band(c, place, has_parts)
      elseif left > 0 then
        add_delayed(c, place.S)
      end
      if left <= 0 then
        next_cursor = { number, place.text, list, behind, front }
        return false
      end
      left = left - A_LIST
    end
  end
  from, list, behind, left = '', '', 0, left - A_CRAWL
  return true
end

local texts = redis.call('HMGET', K.names, unpack(names))
for number = first, #names do
  if left <= 0 then
    next_cursor = { number, '', '', 0, '' }
    break
  end
  if not add_crawl(number, names[number], texts[number]) then
    break
  end
end
return cmsgpack.pack({ next_cursor, unpack(found) })
