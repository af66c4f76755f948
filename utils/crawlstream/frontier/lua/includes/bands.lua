-- Bands and the two indexes of a spider: which domains have work, and which is next.
-- Guarantee: a domain with entries of spider S is in exactly one of `w:S` (waiting, by next allowed
--   time), `r:S` (ready, by best priority) and `p:S` (parked: its rule allows nothing). The indexes
--   are hints; `lease` checks the domain's own state. Emptiness of a band is found when it is popped.
-- Band  `b:<S>:<tag>:<domain>` LIST, tag = `<crawl number>/<priority>`: entries, FIFO.
-- Index `o:<S>` HASH domain -> its one tag; `*` if it has several (then `q:<S>:<domain>` ZSET by
--   priority, then turn); empty text if it has none and only cools down.
local PRIORITY_UNIT = 2 ^ 40

local function rank(priority)
  return string.format('%.0f', -priority * PRIORITY_UNIT + next_turn())
end

local function split_tag(tag)
  local c, priority = string.match(tag, '^(%d+)/(-?%d+)$')
  return c, tonumber(priority)
end

local newly_ready = {}

-- A band that was empty has entries now.
local function index_band(S, domain, tag, priority)
  local o = redis.call('HGET', P .. 'o:' .. S, domain)
  if o == tag then
    return
  end
  if not o then
    redis.call('SADD', P .. 'spiders', S)
    redis.call('HSET', P .. 'o:' .. S, domain, tag)
    redis.call('ZADD', P .. 'r:' .. S, rank(priority), domain)
    newly_ready[S] = (newly_ready[S] or 0) + 1
    return
  end
  if o == '' then
    redis.call('HSET', P .. 'o:' .. S, domain, tag)
    return
  end
  local q = P .. 'q:' .. S .. ':' .. domain
  if o ~= '*' then
    local _, other = split_tag(o)
    redis.call('ZADD', q, rank(other), o)
    redis.call('HSET', P .. 'o:' .. S, domain, '*')
  end
  redis.call('ZADD', q, 'NX', rank(priority), tag)
  redis.call('ZADD', P .. 'r:' .. S, 'XX', 'LT', rank(priority), domain)
end

-- Append entries to a band, or put them in front of it.
local function push(S, domain, tag, priority, entries, in_front)
  local key = P .. 'b:' .. S .. ':' .. tag .. ':' .. domain
  local length = redis.call(in_front and 'LPUSH' or 'RPUSH', key, unpack(entries))
  if length == #entries then
    index_band(S, domain, tag, priority)
  end
end

-- Keep an entry back until the frontier clock reaches `due`.
local function delay(S, domain, tag, entry, due, in_front)
  redis.call('SADD', P .. 'spiders', S)
  redis.call('ZADD', P .. 'y:' .. S, int(due),
    int(next_turn()) .. ' ' .. (in_front and 'f' or 'b') .. ' ' .. tag .. ' ' .. domain .. ' ' .. entry)
end

-- Move delayed entries of S that are due into their bands (at most `limit`).
local function promote_delayed(S, limit)
  local due = redis.call('ZRANGE', P .. 'y:' .. S, '-inf', int(now), 'BYSCORE', 'LIMIT', 0, limit)
  if #due == 0 then
    return
  end
  redis.call('ZREM', P .. 'y:' .. S, unpack(due))
  for i = 1, #due do
    local side, tag, domain, entry = string.match(due[i], '^%d+ (%a) (%S+) (%S+) (.*)$')
    local c, priority = split_tag(tag)
    if crawl_of(c).state == 'running' then
      push(S, domain, tag, priority, { entry }, side == 'f')
      count(c, 'delayed', -1)
      count(c, 'queued', 1)
    end
  end
end

-- Wake workers that sleep for S: one for every 8 domains that became ready.
local function wake(S, domains)
  local asleep = redis.call('ZPOPMIN', P .. 'z:' .. S, math.ceil(domains / 8))
  for i = 1, #asleep, 2 do
    redis.call('PUBLISH', P .. 'wake:' .. asleep[i], '1')
  end
end

local function wake_ready()
  for S, domains in pairs(newly_ready) do
    wake(S, domains)
  end
end

-- Best priority that domain claims to have: its rank's priority, or nil if it is empty.
local function top_priority(S, domain, o)
  if o == '' or not o then
    return nil
  end
  if o ~= '*' then
    local _, priority = split_tag(o)
    return priority
  end
  local top = redis.call('ZRANGE', P .. 'q:' .. S .. ':' .. domain, 0, 0)[1]
  if not top then
    return nil
  end
  local _, priority = split_tag(top)
  return priority
end

-- Forget one tag of a domain that has several; answers what `o` says from now on.
local function drop_tag(S, domain, tag)
  local q = P .. 'q:' .. S .. ':' .. domain
  redis.call('ZREM', q, tag)
  local left = redis.call('ZRANGE', q, 0, 1)
  if #left > 1 then
    return '*'
  end
  redis.call('DEL', q)
  local o = left[1] or ''
  redis.call('HSET', P .. 'o:' .. S, domain, o)
  return o
end

-- Pop up to `limit` entries of a domain, all of its best priority, equal crawls in turn.
-- Answers {tag, entry, tag, entry, …} and what `o` says from now on.
local function pop(S, domain, o, limit)
  local popped = {}
  local left, best = limit, nil
  while left > 0 and o ~= '' do
    local several = o == '*'
    local tag = several and redis.call('ZRANGE', P .. 'q:' .. S .. ':' .. domain, 0, 0)[1] or o
    local c, priority = split_tag(tag)
    if best and priority < best then
      break
    end
    local want = several and 1 or left
    local entries = is_open(c)
        and redis.call('LPOP', P .. 'b:' .. S .. ':' .. tag .. ':' .. domain, want) or {}
    if not entries then
      entries = {}
    end
    for i = 1, #entries do
      popped[#popped + 1] = tag
      popped[#popped + 1] = entries[i]
    end
    left = left - #entries
    if #entries > 0 then
      best = priority
    end
    if #entries < want then
      if several then
        o = drop_tag(S, domain, tag)
      else
        o = ''
        redis.call('HSET', P .. 'o:' .. S, domain, '')
      end
    elseif several then
      redis.call('ZADD', P .. 'q:' .. S .. ':' .. domain, rank(priority), tag)
    end
  end
  return popped, o
end
