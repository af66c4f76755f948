#!lua flags=allow-oom
-- purse: pay for pages: note prices, reserve money before a request, settle it after; keep the purses.
-- Guarantee: reserved money never exceeds a budget. It counts as spent from before its request leaves; only
--   `settle` frees it. What is not settled within KEPT_MS is spent. A repeated call counts once. When Redis was
--   restarted, it may have lost reservations: a purse is closed until an operator adopts it. Days are those of
--   Redis' clock, in UTC, and never go back.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 packed {verb, purse, arguments of the verb}; amounts are whole millionths, -1 for none
--   quote    {origin, domain, app, currency of the limit|'', limit, currency, price}: note the origin's price
--   reserve  {origin, domain, app, currency of the limit|'', limit, sending}: reserve its price
--   settle   {origin, sending, price, charged}: -1: unknown, all of the price is spent
--   set      {definition}: packed {currency, a day, total, a page, apps, domains}; lists are lines, '' for any
--   origins  {day from 1970}
--   forgive  {origin}: trust it again
--   show, details, adopt, remove; names: of all purses
-- Returns: packed {answer, …}
--   quote, reserve: 'ok', currency, price; or why not: 'no_price', 'no_purse', 'closed', 'not_for_it' (application,
--     domain, currency), 'overcharges' (this origin did), 'too_expensive', 'empty'
--   show: 'ok', definition, sums as of HGETALL, is closed, reservations that are open, origins that overcharged;
--     or 'no_purse'
--   origins: 'ok', what each was charged for on a day: '<origin>', amount, …; '*' is all above MOST_ORIGINS
--   details: 'ok', the oldest of these with their times: '<price> <sending>', ms, …; origins that overcharged
--   names: 'ok', names; others: 'ok'; 'no_purse', 'other_currency' (of a purse that has spent), 'too_many',
--     'no_origin' (that overcharged)
-- Cost: about ten commands; at most a hundred more for reservations that are overdue, and to remove a purse.
--- include: clock
local DAY_MS, KEPT_MS, PRICE_MS = 86400000, 600000, 86400000
local MOST_PURSES, MOST_PRICES, MOST_OVERDUE, DAYS_KEPT = 100, 1000, 100, 100
local MOST_SHOWN, MOST_ORIGINS = 1000, 1000
local verb, name, args = unpack(cmsgpack.unpack(ARGV[1]))
local origin = args[1]
local key, open, prices, distrusted = K.purse(name), K.purse_open(name), K.purse_prices(name), K.purse_distrusted(name)
local packed = redis.call('HGET', K.purses, name)
local currency, day_budget, budget, page_limit, apps, domains
if packed then
  currency, day_budget, budget, page_limit, apps, domains = unpack(cmsgpack.unpack(packed))
end
local sums = redis.call('HMGET', key, 'life', 'at', 'total')
local at = math.max(wall, tonumber(sums[2] or 0))

local function date_of(ms)
  return int(math.floor(ms / DAY_MS))
end

local function day_of(ms)
  return 'd' .. date_of(ms)
end

local function add(field, amount)
  redis.call('HINCRBY', key, field, int(amount))
end

local function lists(list, member)
  return list == '' or string.find('\n' .. list .. '\n', '\n' .. member .. '\n', 1, true) ~= nil
end

-- Return why the purse does not pay a price for a page; nil if it does.
local function refusal(price, of, domain, app, limit_currency, limit)
  if not packed then
    return 'no_purse'
  elseif sums[1] ~= int(life) then
    return 'closed'
  elseif of ~= currency or (limit >= 0 and limit_currency ~= currency)
    or not lists(apps, app) or not lists(domains, domain) then
    return 'not_for_it'
  elseif redis.call('SISMEMBER', distrusted, origin) == 1 then
    return 'overcharges'
  elseif (limit >= 0 and price > limit) or (page_limit >= 0 and price > page_limit) then
    return 'too_expensive'
  end
  local today = tonumber(redis.call('HGET', key, day_of(at)) or 0)
  if today + price > day_budget or (budget >= 0 and tonumber(sums[3] or 0) + price > budget) then
    return 'empty'
  end
end

local function price_of()
  local noted = redis.call('HGET', prices, origin)
  local price, since = string.match(noted or '', '^(%d+) (%d+)$')
  return price and at - since < PRICE_MS and tonumber(price) or nil
end

-- Give up reservations whose crawlers died, or cannot reach Redis.
local function give_up_overdue()
  local overdue = redis.call('ZRANGEBYSCORE', open, '-inf', int(at - KEPT_MS), 'LIMIT', 0, MOST_OVERDUE)
  for _, each in ipairs(overdue) do
    redis.call('ZREM', open, each)
    add('unsettled', string.match(each, '^%d+'))
  end
end

local function forget_old_days()
  for _, field in ipairs(redis.call('HKEYS', key)) do
    local day = tonumber(string.match(field, '^d(%d+)$'))
    if day and day < at / DAY_MS - DAYS_KEPT then
      redis.call('HDEL', key, field)
    end
  end
end

-- Note a charge; of more than MOST_ORIGINS origins of a day, the others are one sum.
local function add_to_origin(date, amount)
  local of_date = K.purse_origins(name, date)
  local fits = redis.call('HLEN', of_date) < MOST_ORIGINS or redis.call('HEXISTS', of_date, origin) == 1
  redis.call('HINCRBY', of_date, fits and origin or '*', int(amount))
  redis.call('PEXPIRE', of_date, DAYS_KEPT * DAY_MS)
end

local verbs = {}

function verbs.quote(domain, app, limit_currency, limit, of, price)
  local why = refusal(price, of, domain, app, limit_currency, limit)
  if packed and of == currency then
    if redis.call('HLEN', prices) >= MOST_PRICES then
      redis.call('UNLINK', prices)
    end
    redis.call('HSET', prices, origin, int(price) .. ' ' .. int(at))
    redis.call('PEXPIRE', prices, PRICE_MS)
  end
  return { why or 'ok', of, price }
end

function verbs.reserve(domain, app, limit_currency, limit, sending)
  local price = price_of()
  if not price then
    return { 'no_price' }
  end
  local member = int(price) .. ' ' .. sending
  if redis.call('ZSCORE', open, member) then
    return { 'ok', currency, price }
  end
  local why = refusal(price, currency, domain, app, limit_currency, limit)
  if why then
    return { why }
  end
  give_up_overdue()
  if redis.call('HEXISTS', key, day_of(at)) == 0 then
    forget_old_days()
  end
  redis.call('ZADD', open, int(at), member)
  redis.call('HSET', key, 'at', int(at))
  add(day_of(at), price)
  add('total', price)
  return { 'ok', currency, price }
end

function verbs.settle(sending, price, charged)
  local member = int(price) .. ' ' .. sending
  local since = redis.call('ZSCORE', open, member)
  if not since then
    return { 'ok' }
  end
  redis.call('ZREM', open, member)
  if charged < 0 then
    add('unsettled', price)
    return { 'ok' }
  end
  add(day_of(tonumber(since)), charged - price)
  add('total', charged - price)
  add('charged', charged)
  if charged > 0 then
    add('pages', 1)
    add_to_origin(date_of(tonumber(since)), charged)
  end
  if charged > price then
    add('overcharged', charged - price)
    redis.call('SADD', distrusted, origin)
  end
  return { 'ok' }
end

function verbs.set(definition)
  if packed and cmsgpack.unpack(definition)[1] ~= currency and tonumber(sums[3] or 0) > 0 then
    return { 'other_currency' }
  elseif not packed and redis.call('HLEN', K.purses) >= MOST_PURSES then
    return { 'too_many' }
  elseif not packed then
    redis.call('HSET', key, 'life', int(life))
  end
  redis.call('HSET', K.purses, name, definition)
  return { 'ok' }
end

function verbs.show()
  local found = redis.call('HGETALL', key)
  local is_closed = sums[1] ~= int(life) and 1 or 0
  return { 'ok', packed, found, is_closed, redis.call('ZCARD', open), redis.call('SCARD', distrusted) }
end

function verbs.details()
  local shown = redis.call('ZRANGE', open, 0, MOST_SHOWN - 1, 'WITHSCORES')
  return { 'ok', shown, redis.call('SMEMBERS', distrusted) }
end

function verbs.origins()
  return { 'ok', redis.call('HGETALL', K.purse_origins(name, int(origin))) }
end

function verbs.forgive()
  return { redis.call('SREM', distrusted, origin) == 1 and 'ok' or 'no_origin' }
end

function verbs.adopt()
  redis.call('HSET', key, 'life', int(life))
  redis.call('UNLINK', distrusted)
  return { 'ok' }
end

function verbs.remove()
  redis.call('HDEL', K.purses, name)
  local keys = { key, open, prices, distrusted }
  for date = math.floor(at / DAY_MS) - DAYS_KEPT - 1, math.floor(at / DAY_MS) do
    keys[#keys + 1] = K.purse_origins(name, int(date))
  end
  redis.call('UNLINK', unpack(keys))
  return { 'ok' }
end

local answer = { 'no_purse' }
if verb == 'names' then
  answer = { 'ok', redis.call('HKEYS', K.purses) }
elseif verb == 'set' then
  answer = verbs.set(origin)
elseif packed then
  answer = verbs[verb](unpack(args, 2))
end
save_clock()
return cmsgpack.pack(answer)
