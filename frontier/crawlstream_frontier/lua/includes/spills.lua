-- Children that wait in Kafka, on `<prefix>.overflow`, because Redis is crowded.
-- Guarantee: what a record on that topic holds is counted `spilled` exactly as long as its name is
--   registered. A name is given once (worker, token of the parent's hold, chunk), so a record that
--   is neither registered nor below a hold is one of a parent that is fetched again: it says nothing.
--   One that is registered and not in Kafka any more fails by name (`pass`, `watch`, `abandon`).
-- `spills:<c>` HASH name -> "<links> <frontier ms>" of the records of ended parents that have not come
--   back, and when they were registered.
-- `recalled:<worker>` SET names that came back before their parent's settle did.
-- `abandon` has this letter before a cursor of `spills:<c>`, where others have one of its domains.
-- Needs: clock, ledger.
local SPILLS = 's'

local function spill_name(worker, token, chunk)
  return worker .. ' ' .. token .. ' ' .. int(chunk)
end

-- Count what was spilled of an ended parent ({chunk, links …}) as admitted; what came back ahead of
-- this is in already.
local function register_spills(worker, hold, spills)
  local c = hold.lot.c
  for i = 1, #spills, 2 do
    local name, links = spill_name(worker, hold.token, spills[i]), spills[i + 1]
    if redis.call('SREM', K.recalled(worker), name) == 0 then
      if is_open(c) then
        redis.call('HSET', K.spills(c), name, int(links) .. ' ' .. int(now))
        count(c, 'admitted', links)
        count(c, 'spilled', links)
      else
        count(c, 'z:ended_run', links)
      end
    end
  end
end

-- The parent is in other hands: that some of its children came back is of no interest any more.
local function drop_spills(worker, token, spills)
  for i = 1, #spills, 2 do
    redis.call('SREM', K.recalled(worker), spill_name(worker, token, spills[i]))
  end
end

-- How many links a record has, and when it was registered; nil by a version that did not note it.
local function spill_of(text)
  local links, since = string.match(text or '0', '^(%d+) ?(%d*)$')
  return tonumber(links), tonumber(since)
end

-- Whether a record that comes back is to take effect; from now on it will not again.
local function claim_spill(c, worker, token, chunk)
  local name, key = spill_name(worker, token, chunk), K.spills(c)
  local links = spill_of(redis.call('HGET', key, name))
  if links > 0 then
    redis.call('HDEL', key, name)
    count(c, 'admitted', -links)
    count(c, 'spilled', -links)
    return true
  end
  return redis.call('HEXISTS', K.holds(worker), token) == 1
    and redis.call('SADD', K.recalled(worker), name) == 1
end

-- Fail the links of some records of crawl c that recall has passed without meeting them: Kafka has lost
-- them, or nobody could read them. Answers the next cursor.
local function lose_spills(c, cursor, count_hint)
  local passed, key = tonumber(redis.call('HGET', K.meta, 'passed') or NEVER), K.spills(c)
  local scanned = redis.call('HSCAN', key, cursor, 'COUNT', count_hint)
  for i = 1, #scanned[2], 2 do
    local name = scanned[2][i]
    local links, since = spill_of(scanned[2][i + 1])
    if not since then
      redis.call('HSET', key, name, int(links) .. ' ' .. int(now))
    elseif since <= passed and redis.call('HDEL', key, name) == 1 then
      count(c, 'spilled', -links)
      count(c, 'failed', links)
      count(c, 'f:spill_lost', links)
      touched[c] = true
      owe('spill_lost', c, { reason = 'spill_lost', spill = name, links = links })
    end
  end
  return scanned[1]
end
