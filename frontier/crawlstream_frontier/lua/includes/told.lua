-- Settings of a crawl that come with its seeds: the firing that feeds them, how long it remembers its pages, and the
--   budgets of its run.
-- Guarantee: regardless of the order in which partitions are read, the latest seed with a setting decides how long
--   a crawl remembers its pages, or its budgets; by the time of its record, then by partition and offset. A run has
--   the latest occasion that a seed of it names.
-- A place in time is {timestamp, partition, offset} of a record.
-- Needs: clock, ledger. Cost: two commands per crawl and call; nothing for seeds without these settings.
local remember_of, budgets_of, occasion_of = {}, {}, {}

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

-- Note what a seed says in `remember_of` or `budgets_of`. Seeds of one partition come in the order of their offsets.
local function note_latest(said_of, c, said, place_in_time)
  local former = said_of[c]
  if not former or place_in_time[1] >= former[2][1] then
    said_of[c] = { said, place_in_time }
  end
end

-- Set the budgets of a run, {max_seconds, max_bytes, max_failed_share}.
local function set_budgets(c, said, by)
  local RECOVERED, BUDGETED, SCORED, OF_HOSTS = 1, 2, 16, 32
  local crawl, has_budgets = crawl_of(c), said[2] > 0 or said[3] > 0
  local marks = (crawl.recovered and RECOVERED or 0) + (has_budgets and BUDGETED or 0) + (crawl.used or 0)
    + (crawl.is_scored and SCORED or 0) + (crawl.has_host_budget and OF_HOSTS or 0)
  redis.call('HSET', K.ledger(c), 'budgets', string.format('%.0f %.6g', said[2], said[3]), 'budgets_by', by)
  redis.call(has_budgets and 'SADD' or 'SREM', K.spending, c)
  if marks > 0 then
    redis.call('HSET', K.ledger(c), 'recovered', int(marks))
  else
    redis.call('HDEL', K.ledger(c), 'recovered')
  end
  crawl_cache[c] = nil
  if has_budgets then
    look_at_budgets(c, crawl_of(c), {})
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
  for c, of in pairs(budgets_of) do
    if is_latest(c, 'budgets_by', of[2]) then
      set_budgets(c, of[1], as_text(of[2]))
    end
  end
  remember_of, budgets_of, occasion_of = {}, {}, {}
end
