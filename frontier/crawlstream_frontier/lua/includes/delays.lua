-- Delayed entries: those that wait for a time before they enter their bands.
-- `y:<S>:<c>` ZSET by due time; `y:<S>` ZSET crawl number by its first due time.
-- Needs: clock, ledger, views, and of `bands` push. Its functions are in one table, because a function in Lua may use
--   60 names from outside. The table has room for them from the beginning: growing costs more than making it.
local delays = { add = false, drop = false, promote = false }

-- Delay an entry until the frontier clock reaches `due`.
function delays.add(S, domain, tag, entry, due, in_front)
  local c, priority = split_tag(tag)
  know_spider(S)
  redis.call('ZADD', K.delayed(S, c), int(due), string.format('%012d', next_turn()) .. ' '
    .. (in_front and 'f' or 'b') .. ' ' .. int(priority) .. ' ' .. domain .. ' ' .. entry)
  redis.call('ZADD', K.delayed_crawls(S), 'LT', int(due), c)
  for _, V in ipairs(views_of(S)) do
    note_due(V, due)
  end
end

function delays.drop(S, c)
  redis.call('UNLINK', K.delayed(S, c))
  redis.call('ZREM', K.delayed_crawls(S), c)
end

-- Move delayed entries of one crawl that are due into their bands; return their number.
local function promote_delayed_of(S, c, limit)
  local key = K.delayed(S, c)
  local due = redis.call('ZRANGE', key, '-inf', int(now), 'BYSCORE', 'LIMIT', 0, limit)
  for i = 1, #due do
    local side, priority, domain, entry = string.match(due[i], '^%d+ (%a) (%S+) (%S+) (.*)$')
    push(S, domain, c .. '/' .. priority, tonumber(priority), { entry }, side == 'f')
  end
  if #due > 0 then
    redis.call('ZREM', key, unpack(due))
    count(c, 'delayed', -#due)
    count(c, 'queued', #due)
  end
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
  if first then
    redis.call('ZADD', K.delayed_crawls(S), first, c)
  else
    redis.call('ZREM', K.delayed_crawls(S), c)
  end
  return #due
end

-- Move delayed entries of S that are due into their bands (at most `limit`); return true at the limit.
function delays.promote(S, limit)
  local crawls = redis.call('ZRANGE', K.delayed_crawls(S), '-inf', int(now), 'BYSCORE', 'LIMIT', 0, limit)
  for _, c in ipairs(crawls) do
    if limit <= 0 then
      break
    elseif crawl_of(c).state == 'running' then
      limit = limit - promote_delayed_of(S, c, limit)
    else
      delays.drop(S, c)
    end
  end
  return limit <= 0
end
