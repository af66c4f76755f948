-- Children that wait in Kafka, on `<prefix>.overflow`, because Redis is crowded.
-- Guarantee: the links of a record on that topic count as `spilled` exactly as long as its name is
--   registered. A name is used once (worker, token of the parent's lease, chunk), so a record that
--   is neither registered nor of a leased parent is of a parent that is fetched again: it is ignored.
--   A registered record that is no longer in Kafka fails as `spill_lost` (`pass`, `watch`, `abandon`).
-- `spills:<c>` HASH name -> "<links> <frontier ms>" of the records of ended parents that have not come
--   back: number of links, and time of registration.
-- `recalled:<worker>` SET names that came back before their parent's settle did.
-- `abandon` has this letter before a cursor of `spills:<c>`; otherwise its cursor is of the crawl's domains.
-- Needs: clock, ledger.
local SPILLS = 's'

local function spill_name(worker, token, chunk)
  return worker .. ' ' .. token .. ' ' .. int(chunk)
end

-- Count the spilled links of an ended parent ({chunk, links …}) as admitted; records recalled before
-- this are counted already.
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

-- Forget recalled children of a parent that another worker has leased.
local function drop_spills(worker, token, spills)
  for i = 1, #spills, 2 do
    redis.call('SREM', K.recalled(worker), spill_name(worker, token, spills[i]))
  end
end

-- Return a record's number of links, and its time of registration; nil if an older version did not note it.
local function spill_of(text)
  local links, since = string.match(text or '0', '^(%d+) ?(%d*)$')
  return tonumber(links), tonumber(since)
end

-- Return true if a recalled record takes effect, and mark it so that it does only once.
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

-- Fail the links of some records of crawl c that recall has passed without finding them: Kafka has lost
-- them, or they were unreadable. Return the next cursor.
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
