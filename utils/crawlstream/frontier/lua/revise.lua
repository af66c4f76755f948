#!lua flags=allow-oom
-- revise: one bounded step of looking again at a spider's domains, after the default rule changed.
-- Guarantee: every domain that was parked or waiting at the change comes up for `lease`, which
--   decides by the new rules.
-- KEYS: 1 prefix of the partition.
-- ARGV: 1 domains a step.
-- `revise` HASH spider -> "<p|w> <cursor>": parked ones first, then those that wait.
-- Returns: spiders left to revise.
-- Cost: O(domains a step).
--- include: clock
--- include: ledger
--- include: throttle
--- include: bands

local S = redis.call('HRANDFIELD', P .. 'revise')
if not S then
  return 0
end
local index, cursor = string.match(redis.call('HGET', P .. 'revise', S), '^(%a) (%d+)$')
local scanned, step
if index == 'p' then
  scanned, step = redis.call('SSCAN', P .. 'p:' .. S, cursor, 'COUNT', ARGV[1]), 1
else
  scanned, step = redis.call('ZSCAN', P .. 'w:' .. S, cursor, 'COUNT', ARGV[1]), 2
end
for i = 1, #scanned[2], step do
  if scanned[2][i] ~= PADDING then
    look_again(S, scanned[2][i])
  end
end
if scanned[1] ~= '0' then
  redis.call('HSET', P .. 'revise', S, index .. ' ' .. scanned[1])
elseif index == 'p' then
  redis.call('HSET', P .. 'revise', S, 'w 0')
else
  redis.call('HDEL', P .. 'revise', S)
end
wake_workers()
save_clock()
return redis.call('HLEN', P .. 'revise')
