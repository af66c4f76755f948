-- Occasions: records of the firings of schedules, each of which takes effect once.
-- Guarantee: of all records with the same schedule, time and number the first takes effect, in whichever
--   partition; the others are known by one bit, for a week and a day after the time, or after the last
--   of them was seen.
-- `occasion:<appid>:<schedule>:<at>:<part>` STRING, a bit a record; a part has 4096 of them, so that no
--   number costs more than half a KiB.
-- Needs: clock, schedules. Cost: a SETBIT a record, and one more command a part and call.
local REMEMBER_OCCASION_S, OCCASIONS_A_PART = 8 * 24 * 3600, 4096
local parts_kept, repeated = {}, 0

-- Note a record of the occasion, which is `<appid>:<schedule>:<at>`; answers whether it was known, and
-- the field of its schedule.
local function note_occasion(occasion, n)
  local part = math.floor(n / OCCASIONS_A_PART)
  local key = K.occasion(occasion, int(part))
  local was_seen = redis.call('SETBIT', key, n % OCCASIONS_A_PART, 1) == 1
  if not parts_kept[key] then
    local field, at = string.match(occasion, '^(.*):(%d+)$')
    parts_kept[key] = field
    local from = math.max(math.floor(wall / 1000), tonumber(at))
    redis.call('EXPIREAT', key, int(from + REMEMBER_OCCASION_S))
  end
  return was_seen, parts_kept[key]
end

-- Whether this is the first record of the occasion; repetitions are counted.
local function is_first_of(occasion, n)
  local was_seen, field = note_occasion(occasion, n)
  if was_seen then
    repeated = repeated + 1
    count_repeated(field)
  end
  return not was_seen
end
