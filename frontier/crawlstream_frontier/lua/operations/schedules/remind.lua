#!lua flags=allow-oom
-- remind: tell a Redis that is new, or was restored from an old copy, which records of occasions took
--   effect before.
-- Guarantee: safe to repeat; what it knows of an occasion stays known.
-- KEYS: 1 prefix of all keys.
-- ARGV: 1 parts of occasions, packed {{occasion, part, its bits, epoch seconds at which it ends} …}
-- Returns: how many parts there were.
-- Cost: two commands a part.
--- include: keys

-- Every bit of either text.
local function union(a, b)
  local bytes = {}
  for i = 1, math.max(#a, #b) do
    bytes[i] = string.char(bit.bor(string.byte(a, i) or 0, string.byte(b, i) or 0))
  end
  return table.concat(bytes)
end

local parts = cmsgpack.unpack(ARGV[1])
for _, told in ipairs(parts) do
  local occasion, part, bits, expires_at = unpack(told)
  local key = K.occasion(occasion, string.format('%d', part))
  local known = redis.call('GET', key)
  if known then
    redis.call('SET', key, union(known, bits), 'KEEPTTL')
  else
    redis.call('SET', key, bits, 'EXAT', string.format('%d', expires_at))
  end
end
return #parts
