#!lua
-- proxies: report experience with proxies, and return that of all other workers: the book.
-- Guarantee: safe sending does not depend on it; if it is lost, workers learn it again. A repeated call reports
--   nothing twice. A proxy that fails again while it is out does not stay out longer: the failure may come from
--   workers that have not read of it yet. Everything stored is bounded, in number and in time.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {call, worker, live_ms, since, from, outcomes, rests, answers, uses, spends, bans}
--   outcomes is one flat list, per proxy id, luck, answers, refused, path, failed, in_row, is_sure, ms, through, lost:
--     since the previous call; in_row: failures in a row at the end; is_sure: one of them is certain to recur; ms: per
--     answer; through: the last two sites it reached; lost: sites to which it found no way since then, as lines
--   rest    {id, site, ms, steps}: leave the site alone; steps -1: the site refused, else there was no way to it
--   answer  {id, site}: the site answered through a resting proxy, or where others found no way
--   use     {id, site, requests, most, rest_ms}: the proxy rests there after `most` requests
--   spend   {pool, requests, bytes}: of this day; the call returns the sum
--   ban     {id, site, ms}: by an operator; '*' all sites; 0 ms: lift it
--   call 0: from a command, not from a worker. live_ms: time for which to count as a user of proxies; 0: do not.
--   since: last news that was read, '' none. from: where to continue in the list of all rests, -1: not reading it.
-- Returns: packed {now, since, from, is there more, news, workers that use proxies, number of them before
--   this one, day, sums of spends}; news: packed {kind, id, site, until, number}: 'o' out, number: times in a row,
--   'r' rests, number: steps, 'b' banned, each until then, 0: ended; 's' no way to the site, 'a' it answers
-- Cost: three commands for all outcomes, and for all uses; two per rest; at most 1000 news, and ended rests.
--- include: clock
local FAILURES, FIRST_OUT_MS, LONGEST_OUT_MS, MOST_TIMES = 5, 30000, 3600000, 20
-- Time for which a proxy counts as working after it reached another site.
local ELSEWHERE_MS = 60000
-- Weight of the old mean when one value is added.
local KEPT = 0.95
local MOST_NEWS, MOST_AT_ONCE, MOST_PROXIES, MOST_RESTS = 5000, 1000, 10000, 100000
local MOST_BLIND, MOST_A_SITE, MOST_USED = 20000, 4, 200000
local HOUR_MS, DAY_MS = 3600000, 86400000
local hour, day = int(math.floor(wall / HOUR_MS)), int(math.floor(wall / DAY_MS))

local call, worker, live_ms, since, from, outcomes, rests, answers, uses, spends, bans =
  unpack(cmsgpack.unpack(ARGV[1]))

local function tell(kind, id, site, until_ms, number)
  redis.call('XADD', K.proxy_news, 'MAXLEN', MOST_NEWS, '*', 'n',
    cmsgpack.pack({ kind, id, site, until_ms, number }))
end

local function put_rest(kind, id, site, until_ms, number)
  redis.call('ZADD', K.proxy_rests, 'GT', int(until_ms), kind .. ' ' .. id .. ' ' .. site)
  tell(kind, id, site, until_ms, number)
end

local function lift(kind, id, site)
  if redis.call('ZREM', K.proxy_rests, kind .. ' ' .. id .. ' ' .. site) == 1 then
    tell(kind, id, site, 0, 0)
  end
end

-- Record of one proxy: score, answers, refused, path, failed, ms, failures in a row, times out, out until, time when
-- it last reached a site, and before that another site; those two sites; then all sites lost since, as lines.
local HEALTH, TIMES_AT, OUTCOME = '<dddddddddddI2c0I2c0', 57, 11
local pack, read, sub = struct.pack, struct.unpack, string.sub

-- Mean after `many` more values.
local function mean(before, of, many)
  return of + (before - of) * KEPT ^ many
end

local function works_elsewhere(packed, site)
  if not packed then
    return false
  end
  local at, before_at, one, other = select(10, read(HEALTH, packed))
  return at > now - ELSEWHERE_MS and one ~= site or before_at > now - ELSEWHERE_MS and other ~= site
end

-- Add new lines to `lost`; return them and their number.
local function lose(lost, told)
  if told == '' then
    return lost, 0
  end
  for site in string.gmatch(told, '[^\n]+') do
    if not string.find('\n' .. lost, '\n' .. site .. '\n', 1, true) then
      lost = lost .. site .. '\n'
    end
  end
  return lost, select(2, string.gsub(lost, '\n', ''))
end

-- Count outcomes, and take the proxy out if it failed too often, or reaches no site at all.
-- Return its new record, packed.
local function learn(at, packed)
  local id, luck, ok, refused, path, failed, in_row, is_sure, ms, through, told_lost = unpack(outcomes, at, at + 10)
  local score, answered, refusals, paths, failures, mean_ms, row, times, out_until = 1, 0, 0, 0, 0, 0, 0, 0, 0
  local one_at, other_at, one, other, lost = 0, 0, '', '', ''
  if packed then
    local rest_at
    score, answered, refusals, paths, failures, mean_ms, row, times, out_until, one_at, other_at, one, other, rest_at =
      read(HEALTH, packed)
    lost = sub(packed, rest_at)
  end
  score = mean(mean(mean(score, 1, ok), 0.5, path), 0, failed)
  if ok > 0 then
    mean_ms = mean_ms == 0 and ms or mean(mean_ms, ms, ok)
    if times > 0 then
      lift('o', id, '*')
    end
    row, times, out_until, lost = 0, 0, 0, ''
    if through == one then
      one_at = now
    else
      for site in string.gmatch(through, '[^\n]+') do
        if site ~= one then
          other_at, other = one_at, one
        end
        one_at, one = now, site
      end
    end
  end
  if out_until <= now then
    local losses
    row = row + in_row
    lost, losses = lose(lost, told_lost)
    local is_on_trial = times > 0 and in_row > 0
    if is_sure or is_on_trial or row >= FAILURES or losses >= FAILURES then
      local span_ms = math.min(FIRST_OUT_MS * 2 ^ times, LONGEST_OUT_MS)
      out_until, times = now + math.ceil(span_ms * luck), math.min(times + 1, MOST_TIMES)
      row, lost = 0, ''
      put_rest('o', id, '*', out_until, times)
    end
  end
  return pack(HEALTH, score, answered + ok, refusals + refused, paths + path, failures + failed, mean_ms, row,
    times, out_until, one_at, other_at, #one, one, #other, other) .. lost
end

-- Apply all outcomes; new proxies are left out if there is no room.
local function learn_all()
  local ids, kept = {}, {}
  for at = 1, #outcomes, OUTCOME do
    ids[#ids + 1] = outcomes[at]
  end
  if #ids == 0 then
    return
  end
  local known = redis.call('HMGET', K.proxy_health, unpack(ids))
  local room = MOST_PROXIES - redis.call('HLEN', K.proxy_health)
  for i, id in ipairs(ids) do
    if known[i] or room > 0 then
      room = known[i] and room or room - 1
      kept[#kept + 1] = id
      kept[#kept + 1] = learn((i - 1) * OUTCOME + 1, known[i])
    end
  end
  if #kept > 0 then
    redis.call('HSET', K.proxy_health, unpack(kept))
  end
end

-- Count another working proxy that has found no way to the site since the site's last answer.
local function miss(id, site)
  local packed = redis.call('HGET', K.proxy_blind, site)
  local ids = packed and cmsgpack.unpack(packed) or {}
  for _, known in ipairs(ids) do
    if known == id then
      return
    end
  end
  if #ids < MOST_A_SITE then
    if not packed and redis.call('HLEN', K.proxy_blind) >= MOST_BLIND then
      redis.call('HDEL', K.proxy_blind, redis.call('HRANDFIELD', K.proxy_blind))
    end
    ids[#ids + 1] = id
    redis.call('HSET', K.proxy_blind, site, cmsgpack.pack(ids))
    redis.call('PEXPIRE', K.proxy_blind, HOUR_MS)
    tell('s', id, site, 0, 0)
  end
end

local function rest(id, site, ms, steps)
  if ms > 0 then
    put_rest('r', id, site, now + ms, steps)
  end
  if steps >= 0 and works_elsewhere(redis.call('HGET', K.proxy_health, id), site) then
    miss(id, site)
  end
end

local function answer(id, site)
  lift('r', id, site)
  if redis.call('HDEL', K.proxy_blind, site) == 1 then
    tell('a', id, site, 0, 0)
  end
end

local function use_all()
  local key, fields, kept = K.proxy_used(hour), {}, {}
  for i, one in ipairs(uses) do
    fields[i] = one[1] .. ' ' .. one[2]
  end
  local known = redis.call('HMGET', key, unpack(fields))
  local room = MOST_USED - redis.call('HLEN', key)
  for i, one in ipairs(uses) do
    local id, site, requests, most, rest_ms = unpack(one)
    local count = (tonumber(known[i]) or 0) + requests
    if count >= most then
      redis.call('HDEL', key, fields[i])
      rest(id, site, rest_ms, -1)
    elseif known[i] or room > 0 then
      room = known[i] and room or room - 1
      kept[#kept + 1], kept[#kept + 2] = fields[i], int(count)
    end
  end
  if #kept > 0 then
    redis.call('HSET', key, unpack(kept))
  end
  redis.call('PEXPIRE', key, 2 * HOUR_MS)
end

local function ban(id, site, ms)
  lift('b', id, site)
  if ms > 0 then
    put_rest('b', id, site, now + ms, 0)
  end
end

local function each(list, act)
  for _, one in ipairs(list) do
    act(unpack(one))
  end
end

-- Return true if this call was not applied before. Calls of commands have no number.
local function is_new()
  if call == 0 then
    return true
  end
  local key = K.proxy_calls(worker)
  local before = redis.call('GET', key)
  redis.call('SET', key, int(call), 'PX', HOUR_MS)
  return not before or call > tonumber(before)
end

local is_told = is_new()
if is_told then
  learn_all()
  each(rests, rest)
  each(answers, answer)
  if #uses > 0 then
    use_all()
  end
  each(bans, ban)
  redis.call('PEXPIRE', K.proxy_rests, 2 * DAY_MS)
  redis.call('PEXPIRE', K.proxy_news, HOUR_MS)
end

-- Delete ended rests, and those above the limit that end first.
local over = math.max(redis.call('ZCOUNT', K.proxy_rests, '-inf', int(now)),
  redis.call('ZCARD', K.proxy_rests) - MOST_RESTS)
if over > 0 then
  redis.call('ZREMRANGEBYRANK', K.proxy_rests, 0, math.min(over, MOST_AT_ONCE) - 1)
end

local sums = {}
for i, spend in ipairs(spends) do
  local key = K.proxy_spent(day)
  for n, what in ipairs({ ' requests', ' bytes' }) do
    local more = is_told and spend[n + 1] or 0
    sums[2 * (i - 1) + n] = redis.call('HINCRBY', key, spend[1] .. what, int(more))
  end
  redis.call('PEXPIRE', key, 2 * DAY_MS)
end

-- Return all rests in pages, the last to end first, and the cursor of the next page.
local function all_rests(page)
  local news = {}
  local members = redis.call('ZRANGE', K.proxy_rests, '+inf', '(' .. int(now), 'BYSCORE', 'REV', 'LIMIT', page,
    MOST_AT_ONCE, 'WITHSCORES')
  for i = 1, #members, 2 do
    local kind, id, site = string.match(members[i], '^(%S+) (%S+) (.*)$')
    local known = kind == 'o' and redis.call('HGET', K.proxy_health, id)
    local number = known and read('<d', known, TIMES_AT) or 0
    news[#news + 1] = cmsgpack.pack({ kind, id, site, tonumber(members[i + 1]), number })
  end
  return news, #news == MOST_AT_ONCE and page + MOST_AT_ONCE or -1
end

-- Return true if all news since then still exist; '0-0' was returned where there were none.
local function is_known()
  if since == '0-0' then
    return redis.call('XLEN', K.proxy_news) < MOST_NEWS
  end
  return since ~= '' and #redis.call('XRANGE', K.proxy_news, since, since) == 1
end

local news, is_more = {}, false
if from < 0 and is_known() then
  for _, entry in ipairs(redis.call('XRANGE', K.proxy_news, '(' .. since, '+', 'COUNT', MOST_AT_ONCE)) do
    since, news[#news + 1] = entry[1], entry[2][2]
  end
  is_more = #news == MOST_AT_ONCE
else
  if from < 0 then
    local last = redis.call('XREVRANGE', K.proxy_news, '+', '-', 'COUNT', 1)[1]
    since, from = last and last[1] or '0-0', 0
  end
  news, from = all_rests(from)
  is_more = from >= 0
end

if live_ms > 0 then
  redis.call('ZADD', K.proxy_workers, int(now + live_ms), worker)
  redis.call('PEXPIRE', K.proxy_workers, HOUR_MS)
end
redis.call('ZREMRANGEBYSCORE', K.proxy_workers, '-inf', int(now))
local workers, place = redis.call('ZRANGE', K.proxy_workers, 0, -1), 0
for _, name in ipairs(workers) do
  if name < worker then
    place = place + 1
  end
end
save_clock()
return cmsgpack.pack({ now, since, from, is_more, news, #workers, place, tonumber(day), sums })
