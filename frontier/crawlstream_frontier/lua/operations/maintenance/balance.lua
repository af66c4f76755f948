#!lua flags=allow-oom
-- balance: check whether the ledgers of some known crawls add up.
-- Guarantee: reads counters, never entries; all counters of a crawl are of one moment.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 cursor of the crawls ('0' begins a round), 2 crawls per step, 3 the sum that the round has found so far.
-- `totals` field `residual`: the sum of the last whole round; any value but 0 is a bug.
-- Returns: packed {next cursor, {name, residual …}, ms}: crawls whose `admitted` is not the sum of the pages
--   by state and outcome; under the name '' if the workers' leases differ in number from the ledgers. `ms` is
--   the longest time without progress of a crawl that has waiting pages and is not
--   paused.
-- Cost: one HMGET per crawl; in the first step of a round two commands per worker.
--- include: present
local COUNTERS = { 'admitted', 'done', 'failed', 'redirected', 'skipped', 'stopped', 'expired',
  'queued', 'delayed', 'held', 'spilled' }
local FIELDS = { unpack(COUNTERS) }
for _, field in ipairs({ 'state', 'paused', 'active' }) do
  FIELDS[#FIELDS + 1] = field
end
local QUEUED = 8
local cursor, page, residual = ARGV[1], ARGV[2], tonumber(ARGV[3])
local found, longest = {}, 0
local time = redis.call('TIME')
local wall = time[1] * 1000 + math.floor(time[2] / 1000)

local function note(name, amount)
  if amount ~= 0 then
    found[#found + 1], found[#found + 2] = name, amount
    residual = residual + math.abs(amount)
  end
end

local function left_over(x)
  local left = tonumber(x[1] or 0)
  for i = 2, #COUNTERS do
    left = left - tonumber(x[i] or 0)
  end
  return left
end

local function waited(x)
  local queued, state, paused, active = x[QUEUED], x[#COUNTERS + 1], x[#COUNTERS + 2], x[#COUNTERS + 3]
  if state ~= 'running' or paused or tonumber(queued or 0) <= 0 then
    return 0
  end
  return wall - tonumber(active)
end

-- Return the number of leases of all workers. Two fields of a worker's hash are not leases.
local function held_by_workers()
  local held = 0
  for _, worker in ipairs(redis.call('ZRANGE', K.workers, 0, -1)) do
    local key = K.holds(worker)
    local others = redis.call('HMGET', key, '!', '@')
    held = held + redis.call('HLEN', key) - (others[1] and 1 or 0) - (others[2] and 1 or 0)
  end
  return held
end

if cursor == '0' then
  note('', tonumber(redis.call('HGET', K.totals, 'held') or 0) - held_by_workers())
end
local scanned = redis.call('HSCAN', K.names, cursor, 'COUNT', page)
for i = 1, #scanned[2], 2 do
  local c = string.match(scanned[2][i + 1], '^%d+')
  local x = redis.call('HMGET', K.ledger(c), unpack(FIELDS))
  note(scanned[2][i], left_over(x))
  longest = math.max(longest, waited(x))
end
if scanned[1] == '0' then
  redis.call('HSET', K.totals, 'residual', string.format('%d', residual))
end
return cmsgpack.pack({ scanned[1], found, longest })
