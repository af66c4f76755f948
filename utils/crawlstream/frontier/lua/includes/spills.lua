-- Children that wait in Kafka, on `<prefix>.overflow`, because Redis is crowded.
-- Guarantee: what a record on that topic holds is counted `spilled` exactly as long as its name is
--   registered. A name is given once (worker, token of the parent's hold, chunk), so a record that
--   is neither registered nor below a hold is one of a parent that is fetched again: it says nothing.
-- `spills:<c>` HASH name -> links, of the records of ended parents that have not come back.
-- `recalled:<worker>` SET names that came back before their parent's settle did.
-- Needs: clock, ledger.
local function spill_name(worker, token, chunk)
  return worker .. ' ' .. token .. ' ' .. int(chunk)
end

-- Count what was spilled of an ended parent ({chunk, links …}) as admitted; what came back ahead of
-- this is in already.
local function register_spills(worker, hold, spills)
  local c = hold.lot.c
  for i = 1, #spills, 2 do
    local name, links = spill_name(worker, hold.token, spills[i]), spills[i + 1]
    if redis.call('SREM', P .. 'recalled:' .. worker, name) == 0 then
      if is_open(c) then
        redis.call('HSET', P .. 'spills:' .. c, name, int(links))
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
    redis.call('SREM', P .. 'recalled:' .. worker, spill_name(worker, token, spills[i]))
  end
end

-- Whether a record that comes back is to take effect; from now on it will not again.
local function claim_spill(c, worker, token, chunk)
  local name, key = spill_name(worker, token, chunk), P .. 'spills:' .. c
  local links = tonumber(redis.call('HGET', key, name) or 0)
  if links > 0 then
    redis.call('HDEL', key, name)
    count(c, 'admitted', -links)
    count(c, 'spilled', -links)
    return true
  end
  return redis.call('HEXISTS', P .. 'h:' .. worker, token) == 1
    and redis.call('SADD', P .. 'recalled:' .. worker, name) == 1
end
