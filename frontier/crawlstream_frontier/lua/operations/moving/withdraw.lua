#!lua flags=allow-oom
-- withdraw: stop the work of a partition, to move it into a frontier of another layout.
-- Guarantee: from `begin` on nothing is leased (there are no rules, and `rules` brings none), nothing is taken
--   from Kafka unless it was partly taken before, and no run ends; work in flight ends as usual. `freeze` is
--   final, and possible only while nothing is in flight: `m` becomes `moved`, without `m` no operation has an
--   effect, and `found` creates no other frontier. `back` undoes both; redis-monitors bring the rules. Each may
--   be repeated.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 begin, note, freeze, back, forget or look, 2 for `begin` the destination, to be shown; for `note` the
--   generations of crawls, packed, which stay in `m`
-- Returns: packed {is it withdrawn ('' no, 'm' moving, 'f' frozen), {kind of work in flight, amount …}}
-- Cost: about fifteen commands.
--- include: keys
local what, said = ARGV[1], ARGV[2]
local ENDS_AT_ONCE = '0'

if what == 'back' then
  if redis.call('EXISTS', K.moved) == 1 then
    redis.call('RENAME', K.moved, K.meta)
  end
  redis.call('HDEL', K.meta, 'moving')
elseif redis.call('EXISTS', K.moved) == 1 then
  if what == 'forget' then
    redis.call('HSET', K.moved, 'forgotten', '1')
  end
  return cmsgpack.pack({ 'f', {} })
end
if redis.call('HEXISTS', K.meta, 'layout') == 0 then
  return redis.error_reply('NOFRONTIER Redis holds no frontier')
end
if what == 'begin' then
  redis.call('HSET', K.meta, 'moving', said)
  redis.call('HDEL', K.meta, 'czxid', 'mzxid')
elseif what == 'note' then
  redis.call('HSET', K.meta, 'generations', said)
end

local left = {}
local function note(name, amount)
  if tonumber(amount or 0) > 0 then
    left[#left + 1], left[#left + 2] = name, tonumber(amount)
  end
end

-- Return the number of Kafka partitions whose seeds must be read again after a loss of Redis, up to the
-- offsets in `lost`.
local function to_read_again()
  local lost, places = redis.call('HGETALL', K.lost), 0
  for i = 1, #lost, 2 do
    local place = string.match(lost[i], '^#(.*)$')
    local position = place and redis.call('HGET', K.positions, place)
    if position and tonumber(position) < tonumber(lost[i + 1]) then
      places = places + 1
    end
  end
  return places
end

local totals = redis.call('HMGET', K.totals, 'held', 'spilled', 'limbo')
note('held', totals[1])
note('spilled', totals[2])
note('limbo', totals[3])
note('ending', redis.call('ZCOUNT', K.idle, '-inf', ENDS_AT_ONCE))
note('swept', redis.call('SCARD', K.sweep))
note('told', redis.call('SCARD', K.tell) + redis.call('HLEN', K.closing))
note('owed', redis.call('XLEN', K.outbox))
note('answered', redis.call('XLEN', K.actions))
note('refused', redis.call('HLEN', K.refused))
note('again', redis.call('HLEN', K.again) + redis.call('HLEN', K.ahead) + to_read_again())
local state = redis.call('HEXISTS', K.meta, 'moving') == 1 and 'm' or ''
if what == 'freeze' and state == 'm' and #left == 0 then
  redis.call('RENAME', K.meta, K.moved)
  state = 'f'
end
return cmsgpack.pack({ state, left })
