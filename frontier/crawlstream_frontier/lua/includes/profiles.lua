-- Profiles of crawls, by their hashes. Where there are several partitions, pages of others refer to them, and the
--   coordinator stores them.
-- Guarantee: a profile is stored once per crawl. An entry whose profile is missing here is admitted; its context
--   leases nothing until the profile is there.
-- Needs: clock, ledger. Cost: one command per profile and call if it is known.
local profile_numbers = {}

local function provide(c, hash, bytes)
  if redis.call('SREM', K.wanted(c), hash) == 1 then
    redis.call('HSET', K.profiles(c), redis.call('HGET', K.profiles(c), '#' .. hash), bytes)
    crawl_of(c).context.wants = redis.call('EXISTS', K.wanted(c)) == 1
    standings().save(c)
  end
end

-- Return the number of a profile within crawl c, stored once; `bytes` nil: the caller does not have them.
local function profile_number(c, hash, bytes)
  local known_as = c .. '/' .. hash
  local number = profile_numbers[known_as]
  if number then
    return number
  end
  local key, field = K.profiles(c), '#' .. hash
  number = redis.call('HGET', key, field)
  if not number then
    number = int(redis.call('HINCRBY', key, '#', 1))
    if bytes then
      redis.call('HSET', key, field, number, number, bytes)
    else
      redis.call('HSET', key, field, number)
      redis.call('SADD', K.wanted(c), hash)
      crawl_of(c).context.wants = true
      standings().save(c)
    end
  elseif bytes and (crawl_of(c).context or {}).wants then
    provide(c, hash, bytes)
  end
  profile_numbers[known_as] = number
  return number
end
