#!lua
-- proxies: what one has learnt of proxies, and what all others have: the book.
-- Guarantee: nothing in it is needed to send safely; lost, it is learnt anew. A call that is repeated tells
--   nothing twice. A proxy that fails again while it is out is not put out for longer: those who have not
--   heard of it yet would. All that is kept is bounded, by number and in time.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {call, worker, live_ms, since, from, outcomes, rests, answers, uses, spends, bans}
--   outcome {id, luck, answers, refused, path, failed, in_row, is_sure, ms, through, lost}: since the call
--     before; of the failures those in a row at the end, and is one of them sure to come again; ms an answer;
--     sites that it came through to, the last two, and those that it found no way to since then
--   rest    {id, site, ms, steps}: leave the site alone; steps -1: it has refused, else no way was found to it
--   answer  {id, site}: it came through where it rested, or others found no way
--   use     {id, site, requests, most, rest_ms}: rest there after so many
--   spend   {pool, requests, bytes}: of this day; its sum is answered
--   ban     {id, site, ms}: by a person; '*' all sites; 0 ms: lift it
--   call 0: of a tool, which is no worker. live_ms: count as one that uses proxies for so long; 0: do not.
--   since: last news that were heard, '' none. from: where in a list of all rests to go on, -1: not in one.
-- Returns: packed {now, since, from, is there more, news, workers that use proxies, how many of them come before
--   this one, day, sums of spends}; news: packed {kind, id, site, until, number}: 'o' out, number times in a row,
--   'r' rests, number steps, 'b' banned, each until then, 0: no more; 's' no way to the site, 'a' it answers
-- Cost: three commands for all outcomes, two a rest, one a use; at most 1000 news, and rests that are over.
--- include: clock
local FAILURES, FIRST_OUT_MS, LONGEST_OUT_MS, MOST_TIMES = 5, 30000, 3600000, 20
-- A proxy that came through to another site so lately works.
local ELSEWHERE_MS = 60000
-- What is left of a mean after one more.
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

-- What is kept of one proxy, by place; AT and SITE: when and to which site it came through last, twice, for two
-- different ones.
local SCORE, ANSWERS, REFUSED, PATH, FAILED, MS, IN_ROW, TIMES, OUT_UNTIL = 1, 2, 3, 4, 5, 6, 7, 8, 9
local AT, SITE, LOST = { 10, 12 }, { 11, 13 }, 14

local function health_in(packed)
  return packed and cmsgpack.unpack(packed) or { 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, '', 0, '', {} }
end

-- After as many more as there are.
local function mean(before, of, many)
  return many == 0 and before or of + (before - of) * KEPT ^ many
end

local function came_through(h, site)
  if h[SITE[1]] ~= site then
    h[AT[2]], h[SITE[2]] = h[AT[1]], h[SITE[1]]
  end
  h[AT[1]], h[SITE[1]] = now, site
end

local function works_elsewhere(h, site)
  for i, at in ipairs(AT) do
    if h[at] > now - ELSEWHERE_MS and h[SITE[i]] ~= site then
      return true
    end
  end
  return false
end

local function lose(lost, site)
  for _, known in ipairs(lost) do
    if known == site then
      return
    end
  end
  lost[#lost + 1] = site
end

-- Count, and put it out where it has failed too often, or comes through to no site at all.
-- Answers what is known of it then, packed.
local function learn(outcome, packed)
  local id, luck, ok, refused, path, failed, in_row, is_sure, ms, through, lost = unpack(outcome)
  local h = health_in(packed)
  h[ANSWERS], h[REFUSED] = h[ANSWERS] + ok, h[REFUSED] + refused
  h[PATH], h[FAILED] = h[PATH] + path, h[FAILED] + failed
  h[SCORE] = mean(mean(mean(h[SCORE], 1, ok), 0.5, path), 0, failed)
  if ok > 0 then
    h[MS] = h[MS] == 0 and ms or mean(h[MS], ms, ok)
    if h[TIMES] > 0 then
      lift('o', id, '*')
    end
    h[IN_ROW], h[TIMES], h[OUT_UNTIL], h[LOST] = 0, 0, 0, {}
    for _, site in ipairs(through) do
      came_through(h, site)
    end
  end
  if h[OUT_UNTIL] <= now then
    h[IN_ROW] = h[IN_ROW] + in_row
    for _, site in ipairs(lost) do
      lose(h[LOST], site)
    end
    local is_on_trial = h[TIMES] > 0 and in_row > 0
    if is_sure or is_on_trial or h[IN_ROW] >= FAILURES or #h[LOST] >= FAILURES then
      local span_ms = math.min(FIRST_OUT_MS * 2 ^ h[TIMES], LONGEST_OUT_MS)
      h[OUT_UNTIL], h[TIMES] = now + math.ceil(span_ms * luck), math.min(h[TIMES] + 1, MOST_TIMES)
      h[IN_ROW], h[LOST] = 0, {}
      put_rest('o', id, '*', h[OUT_UNTIL], h[TIMES])
    end
  end
  return cmsgpack.pack(h)
end

-- All outcomes; proxies that are new have room or are left out.
local function learn_all()
  local ids, kept = {}, {}
  for i, outcome in ipairs(outcomes) do
    ids[i] = outcome[1]
  end
  if #ids == 0 then
    return
  end
  local known = redis.call('HMGET', K.proxy_health, unpack(ids))
  local room = MOST_PROXIES - redis.call('HLEN', K.proxy_health)
  for i, outcome in ipairs(outcomes) do
    if known[i] or room > 0 then
      room = known[i] and room or room - 1
      kept[#kept + 1] = ids[i]
      kept[#kept + 1] = learn(outcome, known[i])
    end
  end
  if #kept > 0 then
    redis.call('HSET', K.proxy_health, unpack(kept))
  end
end

-- One more that works, and has found no way to the site since its last answer.
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
  if steps >= 0 and works_elsewhere(health_in(redis.call('HGET', K.proxy_health, id)), site) then
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
  local key = K.proxy_used(hour)
  local room = MOST_USED - redis.call('HLEN', key)
  for _, one in ipairs(uses) do
    local id, site, requests, most, rest_ms = unpack(one)
    local field = id .. ' ' .. site
    if room > 0 or redis.call('HEXISTS', key, field) == 1 then
      room = room - 1
      if redis.call('HINCRBY', key, field, requests) >= most then
        redis.call('HDEL', key, field)
        rest(id, site, rest_ms, -1)
      end
    end
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

-- Whether this call has not been heard before. A tool's calls have no number.
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

-- Rests that are over, and the first to end of those that are too many.
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

-- All rests, in pages, the last to end first, and what comes after.
local function all_rests(page)
  local news = {}
  local members = redis.call('ZRANGE', K.proxy_rests, '+inf', '(' .. int(now), 'BYSCORE', 'REV', 'LIMIT', page,
    MOST_AT_ONCE, 'WITHSCORES')
  for i = 1, #members, 2 do
    local kind, id, site = string.match(members[i], '^(%S+) (%S+) (.*)$')
    local number = kind == 'o' and health_in(redis.call('HGET', K.proxy_health, id))[TIMES] or 0
    news[#news + 1] = cmsgpack.pack({ kind, id, site, tonumber(members[i + 1]), number })
  end
  return news, #news == MOST_AT_ONCE and page + MOST_AT_ONCE or -1
end

-- Whether the news since then are all there; where there were none '0-0' was answered.
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
