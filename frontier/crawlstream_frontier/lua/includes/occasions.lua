-- Occasions: records of the firings of schedules, each of which takes effect once.
-- Guarantee: of all records with the same schedule, time and number the first takes effect, in any
--   partition; the others are recognized by one bit, for a week and a day after the time, or after the
--   last of them was read.
-- `occasion:<appid>:<schedule>:<at>:<part>` STRING, one bit per record; a part has 4096 of them, so that no
--   number costs more than half a KiB.
-- Needs: clock, schedules. Cost: two commands per part and call, nothing per record.
local REMEMBER_OCCASION_S, OCCASIONS_A_PART = 8 * 24 * 3600, 4096
local parts_of, unsaved, repeated = {}, {}, 0

local function open_part(occasion, number)
  local field, at = string.match(occasion, '^(.*):(%d+)$')
  local from = math.max(math.floor(wall / 1000), tonumber(at))
  local key = K.occasion(occasion, int(number))
  local bytes = { string.byte(redis.call('GET', key) or '', 1, -1) }
  return { key = key, bytes = bytes, length = #bytes, field = field, ends = int(from + REMEMBER_OCCASION_S) }
end

local function part_of(occasion, number)
  local parts = parts_of[occasion]
  if not parts then
    parts = {}
    parts_of[occasion] = parts
  end
  if not parts[number] then
    parts[number] = open_part(occasion, number)
  end
  return parts[number]
end

-- Note a record of the occasion, `<appid>:<schedule>:<at>`; return whether it was known, and
-- the field of its schedule. As with SETBIT, the first bit of a byte is its highest.
local function note_occasion(occasion, n)
  local offset = n % OCCASIONS_A_PART
  local part = part_of(occasion, (n - offset) / OCCASIONS_A_PART)
  local place, bit = math.floor(offset / 8) + 1, 2 ^ (7 - offset % 8)
  local byte = part.bytes[place] or 0
  local was_seen = math.floor(byte / bit) % 2 == 1
  if not was_seen then
    part.bytes[place] = byte + bit
    part.length = math.max(part.length, place)
  end
  unsaved[part] = true
  return was_seen, part.field
end

-- Return true if a record of the occasion has taken effect.
local function is_repetition(occasion, n)
  local offset = n % OCCASIONS_A_PART
  local byte = part_of(occasion, (n - offset) / OCCASIONS_A_PART).bytes[math.floor(offset / 8) + 1] or 0
  return math.floor(byte / 2 ^ (7 - offset % 8)) % 2 == 1
end

-- Write the noted records; the caller does so once, at its end.
local function save_occasions()
  for part in pairs(unsaved) do
    for place = 1, part.length do
      part.bytes[place] = part.bytes[place] or 0
    end
    redis.call('SET', part.key, string.char(unpack(part.bytes)), 'EXAT', part.ends)
  end
  unsaved = {}
end

-- Return true if this is the first record of the occasion; count repetitions.
local function is_first_of(occasion, n)
  local was_seen, field = note_occasion(occasion, n)
  if was_seen then
    repeated = repeated + 1
    count_repeated(field)
  end
  return not was_seen
end
