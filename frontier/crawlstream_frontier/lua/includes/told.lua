-- Settings of a crawl that come with its seeds: the firing that feeds them, and how long it remembers its pages.
-- Guarantee: regardless of the order in which partitions are read, the latest seed with a setting decides how long
--   a crawl remembers its pages; by the time of its record, then by partition and offset. The occasion of a
--   run is the latest that a seed of it names.
-- A place in time is {timestamp, partition, offset} of a record.
-- Needs: clock, ledger. Cost: two commands per crawl and call; nothing for seeds without these settings.
local remember_of, occasion_of = {}, {}

local function as_text(place_in_time)
  return int(place_in_time[1]) .. ' ' .. int(place_in_time[2]) .. ' ' .. int(place_in_time[3])
end

-- Return true if a record is later than the one that set `field` of its crawl, or if none has.
local function is_latest(c, field, place_in_time)
  local by = redis.call('HGET', K.ledger(c), field) or ''
  local at, of_partition, of_offset = string.match(by, '^(%S+) (%d+) (%d+)$')
  for i, other in ipairs({ tonumber(at), tonumber(of_partition), tonumber(of_offset) }) do
    if place_in_time[i] ~= other then
      return place_in_time[i] > other
    end
  end
  return true
end

local function time_of(occasion)
  return tonumber(string.match(occasion or '', ':(%d+)$') or 0)
end

local function note_occasion_of(c, occasion)
  if time_of(occasion) >= time_of(occasion_of[c]) then
    occasion_of[c] = occasion
  end
end

-- Seeds of one partition come in the order of their offsets.
local function note_remember(c, remember, place_in_time)
  local former = remember_of[c]
  if not former or place_in_time[1] >= former[2][1] then
    remember_of[c] = { remember, place_in_time }
  end
end

local function save_told()
  for c, occasion in pairs(occasion_of) do
    local crawl = crawl_of(c)
    if time_of(occasion) > time_of(crawl.occasion) then
      redis.call('HSET', K.ledger(c), 'occasion', occasion)
      crawl.occasion = occasion
    end
  end
  for c, of in pairs(remember_of) do
    if is_latest(c, 'remember_by', of[2]) then
      redis.call('HSET', K.ledger(c), 'remember', int(of[1]), 'remember_by', as_text(of[2]))
    end
  end
  remember_of, occasion_of = {}, {}
end
