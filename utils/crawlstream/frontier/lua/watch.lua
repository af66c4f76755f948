#!lua flags=allow-oom
-- watch: one bounded step of looking for runs in which nothing happens.
-- Guarantee: a run is given to `abandon` only after `max_wait_ms` of the frontier clock in which
--   nothing of it was admitted, leased or ended, while something was queued and nobody had paused
--   it: so long has each of its entries waited at least.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 max_wait_ms, 2 runs a step.
-- `stalled` HASH crawl number -> "<last activity> <frontier ms when it was first found so>".
-- Returns: 1 while more runs are to be looked at in this round, else 0.
-- Cost: O(runs a step).
--- include: clock
--- include: ledger

local ROUNDS_A_WAIT, SHORTEST_ROUND_MS = 24, 1000
local max_wait, page = tonumber(ARGV[1]), ARGV[2]

local function look_at(c)
  local x = redis.call('HMGET', P .. 'x:' .. c, 'state', 'paused', 'queued', 'active')
  if x[1] ~= 'running' or x[2] or tonumber(x[3] or 0) <= 0 then
    redis.call('HDEL', P .. 'stalled', c)
    return
  end
  local active, since = string.match(redis.call('HGET', P .. 'stalled', c) or '', '^(%d+) (%d+)$')
  if active ~= x[4] then
    redis.call('HSET', P .. 'stalled', c, x[4] .. ' ' .. int(now))
  elseif now - tonumber(since) >= max_wait then
    redis.call('HSET', P .. 'abandon', c, '0')
  end
end

local cursor = redis.call('HGET', P .. 'm', 'watch_cursor') or '0'
local scanned = redis.call('HSCAN', P .. 'names', cursor, 'COUNT', page)
for i = 2, #scanned[2], 2 do
  local c, live = string.match(scanned[2][i], '^(%d+) %d+ (%d)$')
  if live == '1' then
    look_at(c)
  end
end
local is_over = scanned[1] == '0'
local next_round = is_over and now + math.max(max_wait / ROUNDS_A_WAIT, SHORTEST_ROUND_MS) or now
redis.call('HSET', P .. 'm', 'watch_cursor', scanned[1], 'watch_at', int(next_round))
save_clock()
return is_over and 0 or 1
