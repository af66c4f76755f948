#!lua flags=allow-oom
-- watch: look for runs without progress, or whose spilled links may be lost, in bounded
--   steps.
-- Guarantee: a run is given to `abandon` only after `max_wait_ms` of the frontier clock in which
--   nothing of it was admitted, leased or ended, while it had queued entries and was not paused:
--   each of its entries has waited at least that long. A run with
--   spilled links is given to it once recall has passed any of them; paused or not, because lost links never
--   come back.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 max_wait_ms (0: no limit), 2 runs per step.
-- `stalled` HASH crawl number -> "<last activity> <frontier ms when it was first found so>".
-- Returns: 1 while this round has more runs to check, or one was found, else 0.
-- Cost: O(runs per step).
--- include: clock
--- include: ledger
--- include: spills

local ROUNDS_A_WAIT, SHORTEST_ROUND_MS, USUAL_ROUND_MS = 24, 1000, 3600000
local max_wait, page = tonumber(ARGV[1]), ARGV[2]

local has_found = false
local has_passed = redis.call('HEXISTS', K.meta, 'passed') == 1

local function look_at(c)
  local x = redis.call('HMGET', K.ledger(c), 'state', 'paused', 'queued', 'active', 'spilled')
  if has_passed and x[1] == 'running' and tonumber(x[5] or 0) > 0 then
    redis.call('HSETNX', K.abandon, c, SPILLS .. '0')
    has_found = true
  end
  if x[1] ~= 'running' or x[2] or tonumber(x[3] or 0) <= 0 or max_wait == 0 then
    redis.call('HDEL', K.stalled, c)
    return
  end
  local active, since = string.match(redis.call('HGET', K.stalled, c) or '', '^(%d+) (%d+)$')
  if active ~= x[4] then
    redis.call('HSET', K.stalled, c, x[4] .. ' ' .. int(now))
  elseif now - tonumber(since) >= max_wait then
    redis.call('HSET', K.abandon, c, '0')
    has_found = true
  end
end

local cursor = redis.call('HGET', K.meta, 'watch_cursor') or '0'
local scanned = redis.call('HSCAN', K.names, cursor, 'COUNT', page)
for i = 2, #scanned[2], 2 do
  local c, live = string.match(scanned[2][i], '^(%d+) %d+ (%d)$')
  if live == '1' then
    look_at(c)
  end
end
local is_over = scanned[1] == '0'
local round = max_wait > 0 and max_wait / ROUNDS_A_WAIT or USUAL_ROUND_MS
local next_round = is_over and now + math.max(round, SHORTEST_ROUND_MS) or now
redis.call('HSET', K.meta, 'watch_cursor', scanned[1], 'watch_at', int(next_round))
save_clock()
return is_over and not has_found and 0 or 1
