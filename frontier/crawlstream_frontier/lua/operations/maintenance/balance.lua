#!lua flags=allow-oom
-- balance: whether the ledger adds up, for some of the crawls that are remembered.
-- Guarantee: reads counters, never entries; all of a crawl are of one moment.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 cursor of the crawls ('0' begins a round), 2 crawls a step, 3 what the round has found so far.
-- `totals` field `residual`: what the last whole round found; anything but 0 is a defect.
-- Returns: packed {next cursor, {name, residual …}, ms}: where `admitted` is not the sum of what became of
--   the pages; under the name '' where the workers hold another number than the ledgers say. `ms` is
--   the longest time in which nothing has happened in one of these crawls, though pages of it wait and
--   nobody has paused it.
-- Cost: one HMGET a crawl; in the first step of a round two commands a worker.
--- include: present
local COUNTERS = { 'admitted', 'done', 'failed', 'redirected', 'stopped', 'expired', 'queued',
  'delayed', 'held', 'spilled' }
local FIELDS = { unpack(COUNTERS) }
for _, field in ipairs({ 'state', 'paused', 'active' }) do
  FIELDS[#FIELDS + 1] = field
end
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
  local queued, state, paused, active = x[7], x[#COUNTERS + 1], x[#COUNTERS + 2], x[#COUNTERS + 3]
  if state ~= 'running' or paused or tonumber(queued or 0) <= 0 then
    return 0
  end
  return wall - tonumber(active)
end

-- Two fields of a worker's hash are not holds.
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
