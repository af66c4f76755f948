#!lua flags=allow-oom
-- revise: check the domains of a view again, in bounded steps, after the default rule changed,
--   or because the view is new.
-- Guarantee: every domain that was parked or waiting at the change comes up for `lease`, which
--   decides by the new rules; a new view has all domains in the end.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 domains per step.
-- `revise` HASH view -> "<o|p|w> <cursor>": first domains that a new view lacks, then parked, then waiting ones.
-- Returns: views left to revise.
-- Cost: O(domains per step).
--- include: clock
--- include: views
--- include: ledger
--- include: throttle
--- include: bands

local V = redis.call('HRANDFIELD', K.revise)
if not V then
  return 0
end
local SCANS = { o = { 'HSCAN', K.tags(spider_of(V)), 2, 'p' }, p = { 'SSCAN', K.parked(V), 1, 'w' },
  w = { 'ZSCAN', K.waiting(V), 2 } }
local index, cursor = string.match(redis.call('HGET', K.revise, V), '^(%a) (%d+)$')
local command, key, step, next_index = unpack(SCANS[index])
local scanned = redis.call(command, key, cursor, 'COUNT', ARGV[1])
for i = 1, #scanned[2], step do
  local domain = scanned[2][i]
  if index == 'o' and domain ~= PAD then
    redis.call('ZADD', K.waiting(V), 'NX', int(now), domain)
    note_due(V, now)
  elseif index ~= 'o' and domain ~= PADDING then
    look_again(V, domain)
  end
end
if scanned[1] ~= '0' then
  redis.call('HSET', K.revise, V, index .. ' ' .. scanned[1])
elseif next_index then
  redis.call('HSET', K.revise, V, next_index .. ' 0')
else
  redis.call('HDEL', K.revise, V)
end
finish()
return redis.call('HLEN', K.revise)
